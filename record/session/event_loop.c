/* SPDX-License-Identifier: MIT */
#include "record/handler/handler_file.h"
#include "record/session/adopt.h"
#include "record/session/patience.h"
#include "record/session/process.h"
#include "record/session/sources.h"
#include "record/session/unrecorded.h"
#include "target/claim/ledger.h"
#include "target/process/target.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

#define ACCEPTS_MAX 64 /* in one step, so that a flood of connections does not block the rest */
#define HALTED_WAIT_NS 250000000u
/* four times as long as an agent sleeps at once (inside/runtime/lock.c) */
#define SILENT_WAIT_NS 1000000000u
/* longer than the agent waits for a child that stops all threads (inside/detour/janitor.c) */
#define SILENT_PARENT_WAIT_NS 5000000000u
#define MEND_NS 2000000000u /* between two checks of our claims in the ledger */
/*
 * A connection closed while its process lives: the process executes another program, is about to
 * die, or lost its agent's thread. Check at this interval whether it still maps its store.
 */
#define HUNG_UP_WAIT_NS 300000000u
/* A connection without a HELLO is given up after this. */
#define HELLO_WAIT_NS 10000000000u

/*
 * Whether timeout_ms have passed since the wait began or the last answer came, whichever is later.
 */
static int is_late(const struct process *process, uint64_t since_ns, int timeout_ms)
{
	uint64_t last_ns = process->answered_ns > since_ns ? process->answered_ns : since_ns;

	return ticks_monotonic_ns() > last_ns + (uint64_t)timeout_ms * 1000000u;
}

struct halt {
	uint64_t since_ns;
	uint64_t switches; /* context switches of all threads by then */
};

/*
 * Whether the process has been stopped for HALTED_WAIT_NS. A tracer of system calls stops it again
 * and again, so each look may find it stopped; but then its threads have run in between.
 */
static int is_halted_long(const struct process *process, struct halt *halt)
{
	uint64_t now_ns = ticks_monotonic_ns();
	uint64_t switches = process_is_halted(process) ? target_switches(process->pid) : 0;

	if (!switches || switches != halt->switches)
		*halt = (struct halt){ now_ns, switches };
	return now_ns > halt->since_ns + HALTED_WAIT_NS;
}

/*
 * Whether the agent's thread has slept since process->silence began, for longer than it does at
 * work. With a child it may sleep longer. Also 0 if that is unknown: the tid is of another PID
 * namespace, or the kernel counts no times.
 */
static int is_silent_long(struct process *process)
{
	struct process_silence *silence = &process->silence;
	pid_t tid = (pid_t)process->hello.agent_tid;
	uint64_t now_ns = ticks_monotonic_ns(), slept_ns;
	struct target_times times;
	char state;

	if (target_thread_times(process->pid, tid, &times))
		return 0;
	state = target_thread_state(process->pid, tid);
	if (!silence->since_ns || state != 'S' || times.ran_ns != silence->ran_ns)
		*silence = (struct process_silence){ now_ns, times.ran_ns };
	slept_ns = now_ns - silence->since_ns;
	return slept_ns > SILENT_PARENT_WAIT_NS ||
	       (slept_ns > SILENT_WAIT_NS &&
		!(process->stoppers || target_has_child(process->pid, tid)));
}

static int wait_for(struct wm_session *session, struct process *process, int timeout_ms,
		    int must_move)
{
	uint64_t since_ns = ticks_monotonic_ns();
	struct halt halt = { since_ns, 0 };
	int is_halted = 0;

	session->in_step++; /* keeps the process from being freed */
	/* in state NEW the HELLO is due, as the answer to our connection */
	while (!is_halted && process->state < PROCESS_HUNG_UP &&
	       (process->state == PROCESS_NEW || process_pending(process))) {
		/* a step may have drained for so long that the answer has come, unread */
		if (is_late(process, since_ns, timeout_ms) &&
		    (!messages_pump(session, process) || is_late(process, since_ns, timeout_ms)))
			break;
		session_step(session, 10);
		patience_arming(session);
		is_halted = must_move && is_halted_long(process, &halt);
		/* the same: read messages before giving up */
		process->is_silent = !is_halted && is_silent_long(process) &&
				     !messages_pump(session, process) &&
				     (process->state == PROCESS_NEW || process_pending(process));
		if (process->is_silent)
			break;
	}
	session->in_step--;
	process->silence = (struct process_silence){ 0 };
	if (process->state == PROCESS_NEW || process_pending(process))
		return is_halted ? -WM_E_STOPPED : -WM_E_AGENT_SILENT;
	if (process->error)
		return process->error;
	return process->state < PROCESS_HUNG_UP ? 0 : -WM_E_GONE;
}

int session_wait(struct wm_session *session, struct process *process, int timeout_ms)
{
	return wait_for(session, process, timeout_ms, 0);
}

int session_wait_moving(struct wm_session *session, struct process *process, int timeout_ms)
{
	return wait_for(session, process, timeout_ms, 1);
}

int session_arm(struct wm_session *session, struct process *process)
{
	int err = 0;

	process->arming = PROCESS_ARMED; /* any -> ARMED */
	if (process->outside)
		return 0;
	if (process->drain)
		drain_share(process->drain); /* an earlier stop of the session has forbidden it */
	FOR_SOURCES(source, ask) {
		int got = err && err != -WM_E_NO_MARKER ? err : source->ask(session, process);

		err = got ? got : err;
	}
	return err;
}

int session_quiet_sources(struct wm_session *session, struct process *process)
{
	int err = 0;

	FOR_SOURCES_BACK(source, quiet) {
		int got = source->quiet(session, process);

		err = err ? err : got;
	}
	return err;
}

int session_disarm(struct wm_session *session, struct process *process)
{
	int err = session_quiet_sources(session, process);

	if (process->outside)
		return 0;
	process->arming = PROCESS_DISARMED; /* ARMED -> DISARMED */
	process->silence.since_ns = 0;
	is_silent_long(process); /* all processes begin process->silence at the same time */
	if (!err)
		err = process_request(process, CONTROL_QUIET, NULL, 0);
	if (!err && process->has_handlers)
		err = process_request(process, CONTROL_UNLOAD, NULL, 0);
	process->has_handlers = 0;
	return err;
}

int session_let_go(struct process *process)
{
	FOR_SOURCES(source, go)
		source->go(process);
	if (!process->hello.launched || process->let_go)
		return 0;
	process->let_go = 1;
	return process_request(process, CONTROL_GO, NULL, 0);
}

/* Have a new process open its store, arm, and run, as the session's options say. */
static int session_welcome(struct wm_session *session, struct process *process)
{
	const struct wm_session_options *options = &session->options;
	struct control_open open = {
		.buffer_bytes = options->buffer_bytes,
		.block_ns = options->block_ns,
		.policy = (uint32_t)session_store_policy(session),
		.clock = options->ordered ? STORE_CLOCK_ORDERED : STORE_CLOCK_TSC,
		.tool_pid = process_tool_pid(session, process),
		.tsc_hz = session->tsc_hz,
	};
	const char *path = options->follow == WM_FOLLOW_NONE || !process->listener
				   ? ""
				   : process->listener->path;
	struct iovec parts[] = { { &open, sizeof(open) }, { (void *)path, strlen(path) + 1 } };
	/* while ending, arm only forked children: others would need plans, which may take long */
	int records = session->running || (session->is_ending && process->hello.forked);
	int err, adopts;

	process->state = PROCESS_OPENING; /* READY -> OPENING */
	if (!process->invited && (options->follow == WM_FOLLOW_NONE || !records))
		return -ECANCELED; /* it runs unrecorded */
	err = process_request(process, CONTROL_OPEN, parts, 2);
	if (err || !records)
		return err;
	err = handlers_send(session, process);
	if (err)
		return err;
	adopts = adopt_ask(session, process);
	err = adopts < 0 ? adopts : session_arm(session, process);
	if (err)
		return err;
	FOR_SOURCES(source, welcome)
		if (source->welcome(session, process))
			return 0;
	return session_let_go(process);
}

/* Accept processes that connect unasked: launched programs, and children of recorded processes. */
static int accept_at(struct wm_session *session, struct listener *listener)
{
	struct process *process;
	struct link link;
	int count = 0, got;

	if (listener->is_still)
		return 0;
	while (count < ACCEPTS_MAX && (got = tool_socket_listener_accept(listener, &link)) != 0) {
		count++;
		/*
		 * close a foreign user's connection; without descriptors, stop here and report
		 * nothing
		 */
		if (got == -WM_E_PEER_UID)
			continue;
		if (got < 0 || process_new(&process, session, &link, link.pid))
			break;
		process->listener = listener;
		for (size_t i = 0; i < session->launched_count; i++)
			process->invited |= session->launched[i] == process->pid;
	}
	return count;
}

int session_accept(struct wm_session *session)
{
	int count = 0;

	for (struct listener *l = session->listeners; l; l = l->next)
		count += accept_at(session, l);
	return count;
}

static void wait_for_something(struct wm_session *session, int timeout_ms)
{
	uint64_t wait_ns = timeout_ms < 0 ? SESSION_IDLE_NS_MAX : (uint64_t)timeout_ms * 1000000u;

	session_poll(session, wait_ns < session->idle_ns ? wait_ns : session->idle_ns);
}

/* Handle one process's messages and its end. Returns whether there was something. */
static int attend(struct wm_session *session, struct process *process)
{
	uint64_t age = ticks_monotonic_ns() - process->since_ns;
	int count = 0, err = 0;

	if (process->state == PROCESS_OVER || process->is_kernel)
		return 0;
	/* in this order: once a process is seen dead, all that it sent has arrived */
	if (!process->is_alive)
		process->dead = process->pidfd >= 0 && process_is_dead(process);
	if (!process->is_still)
		count = messages_pump(session, process);
	if (process->state == PROCESS_READY && !session->stops)
		err = session_welcome(session, process);
	FOR_SOURCES(source, attend)
		err = err ? err : source->attend(session, process);
	if (err == -WM_E_GONE)
		count += messages_pump(session, process); /* it may have sent a reason */
	if (process->state == PROCESS_NEW && age > HELLO_WAIT_NS)
		err = -WM_E_AGENT_SILENT;
	if (process->state < PROCESS_HUNG_UP && (err || process->dead))
		process_hang_up(process, err ? err : -WM_E_GONE);
	else if (process->state == PROCESS_HUNG_UP && age > HUNG_UP_WAIT_NS) {
		process->unmapped = process->dead || !process_has_store(process);
		process->since_ns = ticks_monotonic_ns();
	}
	return count;
}

void session_free_process(struct process *process)
{
	/* as after a hang-up: first the connection, then what needed it */
	link_release(&process->link);
	FOR_SOURCES(source, forget)
		source->forget(process);
	process_free(process);
}

/* Free ended processes, except those that we launched or attached to. */
static void sweep(struct wm_session *session)
{
	struct process **at = &session->processes;

	while (*at) {
		struct process *p = *at;

		if (p->state == PROCESS_HUNG_UP && !p->drain)
			p->state = PROCESS_OVER; /* HUNG_UP -> OVER */
		if (p->state == PROCESS_OVER && !p->invited && !process_executes(p)) {
			*at = p->next;
			session_free_process(p);
		} else {
			at = &p->next;
		}
	}
}

/* Repair the ledger: other users may have removed or overwritten it. */
static void mend_claims(struct wm_session *session)
{
	uint64_t now_ns = ticks_monotonic_ns();

	if (!session->ledger || now_ns - session->mended_ns < MEND_NS)
		return;
	session->mended_ns = now_ns;
	ledger_mend(session->ledger);
}

int session_pump_sources(struct wm_session *session)
{
	int count = 0;

	FOR_SOURCES(source, pump) {
		int got = source->pump(session);

		if (got < 0 && !session->trace_error)
			session->trace_error = got;
		count += got > 0;
	}
	return count;
}

int session_step(struct wm_session *session, int timeout_ms)
{
	int count;

	/* steps may be nested, as strict arming waits; the outer ones still use their processes */
	session->in_step++;
	wait_for_something(session, timeout_ms);
	count = session_accept(session);
	for (struct process *p = session->processes; p; p = p->next)
		count += attend(session, p);
	count += session_pump_sources(session);
	count += drain_session_all(session);
	if (--session->in_step == 0) {
		if (session->running)
			unrecorded_look(session, 0);
		mend_claims(session);
		sweep(session);
		session_pollable_update(session);
	}
	return session->trace_error ? session->trace_error : count > 0;
}
