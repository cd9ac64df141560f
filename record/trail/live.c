/* SPDX-License-Identifier: MIT */
#include "record/trail/live.h"

#include "base/elf.h"
#include "record/session/process.h"
#include "record/session/session.h"
#include "record/session/sources.h"
#include "record/spec/spec.h"
#include "target/process/launch.h"
#include "target/process/target.h"
#include "target/process/ticks.h"
#include "trace/writer.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <waymark/error.h>

#define FLUSH_NS 500000000u
#define ENDED_KEPT 64u /* flight recorders of ended children, at most */
#define KEPT_MAX 64u   /* hits kept in a session: each may be as large as the recorder */
#define AGENT_NAME "libwaymark-agent.so"
#define WAITED_MAX 64u
#define WAIT_MS 100
#define WAIT_MANY_MS 2 /* if there are more */
#define ASK_MS 10000

int live_is_wanted(const struct wm_session *session)
{
	return spec_trail(session->specs) != NULL;
}

int live_launches(const struct wm_session *session)
{
	return live_is_wanted(session) && session->live->origin == ORIGIN_SOFT;
}

const struct live_process *live_find(const struct live *live, pid_t pid)
{
	const struct live_process *process = live->processes;

	while (process && process->pid != pid)
		process = process->next;
	return process;
}

/* Whether the session records nothing else. */
static int is_all(const struct wm_session *session)
{
	size_t others = 0;

	for (size_t i = 0; i < session->specs->count; i++)
		others += !session->specs->all[i].kernel;
	return live_is_wanted(session) && others == 1;
}

/* ---- the origin ---- */

static const struct spec *keeper_of(const struct wm_session *session)
{
	for (size_t i = 0; i < session->specs->count; i++)
		if (session->specs->all[i].watch && session->specs->all[i].watch->options.trail)
			return &session->specs->all[i];
	return NULL;
}

int live_keep_ready(struct wm_session *session)
{
	const struct trail_request *request = spec_trail(session->specs);
	const struct spec *keeper = keeper_of(session);
	struct only_names *only = &session->live->keeps_only;

	if (!keeper || session->live->keeps)
		return 0;
	if (session->live->processes)
		return session_fail(session, -EBUSY, "%s: a program is recorded already",
				    keeper->text);
	if (!request || !request->last_bytes)
		return session_fail(session, -WM_E_WATCH_OPTION,
				    "%s: trail needs a flight recorder: -e trail/last=64M/; "
				    "without last= all of a trail is kept",
				    keeper->text);
	if (request->only.count == ONLY_NAMES_MAX)
		return session_fail(
			session, -WM_E_SPEC,
			"%s: only= names as many modules as it can, and one must be left "
			"for " AGENT_NAME,
			keeper->text);
	session->live->keeps = 1;
	*only = request->only;
	if (only->count)
		snprintf(only->names[only->count++], ONLY_NAME_BYTES, "%s", AGENT_NAME);
	return 0;
}

static void rule_out(struct origin_state *state, const char *why)
{
	if (state->error)
		return;
	*state = (struct origin_state){ .error = -WM_E_TRAIL_ASKED };
	snprintf(state->detail, sizeof(state->detail), "%s", why);
}

/*
 * Rule out origins that lack something the session needs. Hardware reports no signals, and the
 * times of its blocks are known only when all is decoded.
 */
static void leave_out(struct live *live, const struct spec_list *specs)
{
	for (size_t i = 0; i < specs->count; i++) {
		const struct watch_expr *watch = specs->all[i].watch;

		if (watch && watch->options.is_outside)
			rule_out(&live->origins[ORIGIN_SOFT],
				 "a watch from outside would report the translation's addresses");
		if (watch && watch->kind == WATCH_EXECUTE)
			rule_out(&live->origins[ORIGIN_SOFT],
				 "the code of a watch for calls (:x) runs as a translation, at "
				 "another address");
	}
	for (int i = 0; i < ORIGINS; i++)
		if (i != ORIGIN_SOFT && (live->trigger == TRIGGER_SIGNAL || live->keeps))
			rule_out(&live->origins[i], live->keeps
							    ? "it can't say when a watch's hit came"
							    : "it can't say when a signal came");
}

/* In programs of tests that have the oracle, `auto` takes that. */
static int choose(struct wm_session *session)
{
	const struct trail_request *request = spec_trail(session->specs);
	struct live *live = session->live;
	const struct origin_state *state;

	if (live->has_origin)
		return 0;
	origins_look(live->origins, &live->machine);
	leave_out(live, session->specs);
	if (request->has_kernel)
		origins_need_kernel(live->origins, &live->machine);
	live->origin = request->origin;
	if (request->is_auto) {
		int best = tracing_oracle ? ORIGIN_ORACLE : origin_best(live->origins);

		/* with none, report why the origin with the fewest needs can't work */
		live->origin = best < 0 ? ORIGIN_SOFT : (enum origin)best;
	}
	state = live->origin < ORIGINS ? &live->origins[live->origin] : NULL;
	if (state && state->error)
		return session_fail(session, state->error, "%s%s%s", origin_name(live->origin),
				    state->detail[0] ? ": " : "", state->detail);
	live->has_origin = 1;
	return 0;
}

/*
 * Choose an origin, unless there is one. Returns 0, also if the session records no trail; or why
 * none can be had, with the session's detail.
 */
static int ready(struct wm_session *session)
{
	int err;

	if (!live_is_wanted(session))
		return 0;
	if (!session->writer)
		return session_fail(
			session, -EINVAL,
			"a trail is written into a folder: open one with wm_session_output()");
	err = live_keep_ready(session);
	return err ? err : choose(session);
}

/* ---- processes ---- */

/* How many blocks a flight recorder has lost, or will have lost once it is dropped. */
static uint64_t lost_blocks(const struct trail_store *store, int is_gone)
{
	struct trail_store_status status;

	trail_store_status(store, &status);
	return status.lost_blocks + (is_gone ? status.blocks : 0);
}

/* Add a process as the first in the list. Returns 0, or an error with the session's detail. */
static int process_add(struct wm_session *session, pid_t pid, struct live_process **out)
{
	struct trail_store_options options = { .bytes = spec_trail(session->specs)->last_bytes,
					       .policy = WM_POLICY_CYCLIC };
	struct live_process *added = calloc(1, sizeof(*added));
	int err = added ? 0 : -ENOMEM;

	if (!err && options.bytes)
		err = trail_store_open(&added->store, &options);
	if (err) {
		free(added);
		return session_fail(session, err, "pid %d", (int)pid);
	}
	added->session = session;
	added->tracer.fd = -1;
	added->pid = pid;
	added->next = session->live->processes;
	session->live->processes = added;
	trail_files_init(&added->files, session->writer);
	*out = added;
	return 0;
}

static struct trail_sink *sink_of(struct live_process *live)
{
	return live->store ? trail_store_sink(live->store) : &live->files.sink;
}

/* Whether the folder did not take what it should have. */
static int is_unwritten(const struct live_process *process)
{
	return process->files.trail.error || process->tracer.wire.error;
}

static void process_remove(struct live_process *process)
{
	struct live *live = process->session->live;
	struct live_process **at = &live->processes;

	while (*at != process)
		at = &(*at)->next;
	*at = process->next;
	live->blocks_written += process->files.trail.blocks_written;
	live->threads_written += process->files.trail.threads_written;
	live->is_unwritten |= is_unwritten(process);
	trail_files_release(&process->files);
	trail_store_close(process->store);
	free(process);
}

/* How trails are recorded now. */
static struct tracing_how how_of(const struct wm_session *session)
{
	const struct trail_request *request = spec_trail(session->specs);
	const struct live *live = session->live;
	/* a signal may come at any time: then all earlier blocks must have been sent to us */
	int is_late = live->trigger != TRIGGER_SIGNAL && !live->keeps;

	/* children with an agent are taken by arm() */
	return (struct tracing_how){
		.origin = live->origin,
		.machine = live->machine,
		.follows = (live->origin == ORIGIN_SOFT || live->origin == ORIGIN_ORACLE) &&
			   is_all(session) && session->options.follow != WM_FOLLOW_NONE,
		.only = live->keeps ? &live->keeps_only : &request->only,
		.last_bytes = is_late ? request->last_bytes : 0,
		.has_kernel = request->has_kernel,
	};
}

/* The process that has this tracer. */
static struct live_process *traced_by(void *tracer)
{
	return (struct live_process *)((char *)tracer - offsetof(struct live_process, tracer));
}

/* ---- flight recorders ---- */

/* A thread triggered the flight recorders: record nothing of any thread from then on. */
static void fire(struct wm_session *session, pid_t pid, pid_t tid, int signal)
{
	if (session->live->fired.has)
		return;
	session->live->fired = (struct live_fired){ 1, pid, tid, signal };
	for (struct live_process *p = session->live->processes; p; p = p->next)
		p->tracer.wire.is_frozen |= !p->root;
}

static void on_event(void *data, pid_t pid, pid_t tid, const struct trail_between *between)
{
	struct live_process *process = traced_by(data);
	const struct live *live = process->session->live;
	int signal = (int)between->values[0];

	if (live->trigger == TRIGGER_SIGNAL && between->event == TRAIL_SIGNAL &&
	    (!live->signal || live->signal == signal))
		fire(process->session, pid, tid, signal);
}

static int dumps_core(int signal)
{
	static const int those[] = { SIGQUIT, SIGILL,  SIGTRAP, SIGABRT, SIGBUS,
				     SIGFPE,  SIGSEGV, SIGSYS,	SIGXCPU, SIGXFSZ };

	for (size_t i = 0; i < sizeof(those) / sizeof(those[0]); i++)
		if (those[i] == signal)
			return 1;
	return 0;
}

/*
 * A process has ended: fire if that is the trigger. `signal`, if not 0, ended it, and was given to
 * the thread `tid`; 0: to the first.
 */
static void look_at_end(struct live_process *process, pid_t tid, int signal)
{
	const struct live *live = process->session->live;
	int fires = 0;

	if (live->trigger == TRIGGER_EXIT)
		fires = !process->root;
	else if (live->trigger == TRIGGER_CRASH)
		fires = dumps_core(signal);
	else if (live->trigger == TRIGGER_SIGNAL)
		fires = signal && (!live->signal || live->signal == signal);
	if (fires)
		fire(process->session, process->pid, tid ? tid : process->pid, signal);
}

/*
 * A recorder is kept whenever a watch with the option `trail` is hit. At such a hit, the thread
 * calls a function of the agent (abi/watch.h), which is in the thread's own trail: so the place of
 * the hit among the blocks is exact. How far back the trail reaches depends on the recorder's size.
 * The block just put is that function: the blocks before it led to the hit.
 */
static void on_sought(void *data, pid_t pid, pid_t tid)
{
	struct live_process *process = traced_by(data);
	struct live *live = process->session->live;
	int err;

	(void)pid;
	(void)tid;
	if (live->kept == KEPT_MAX) {
		live->unkept++;
		return;
	}
	live->kept++;
	err = kept_take(&process->kept, process->store);
	if (!err)
		err = trail_files_flush(&process->files);
	if (err && !process->tracer.wire.error)
		process->tracer.wire.error = err;
}

void live_keep_at(struct wm_session *session, const struct process *process)
{
	for (struct live_process *live = session->live->processes; live; live = live->next)
		if (live->pid == process->pid && live->tracer.wire.on_sought)
			wire_out_seek(&live->tracer.wire, process->kept_at);
}

/* Write a flight recorder to the folder, unless its trigger has not fired. */
static int write_down(struct live_process *live)
{
	struct live *all = live->session->live;
	struct trail_store_status status;

	if (!live->store || (all->trigger != TRIGGER_NONE && !all->fired.has))
		return 0;
	if (!all->keeps)
		return trail_store_write(live->store, &live->files.sink);
	/* drop the blocks after the last hit */
	trail_store_status(live->store, &status);
	all->gone_blocks += status.blocks;
	trail_store_clear(live->store);
	return kept_end(&live->kept);
}

/* ---- children ---- */

/* Add the process to the counts and free it. */
static void forget(struct live_process *process)
{
	struct live *live = process->session->live;

	live->gone++;
	if (process->store)
		live->gone_blocks += lost_blocks(process->store, 1);
	process_remove(process);
}

/* If there are too many flight recorders of ended children, drop that of the first to end. */
static void make_way(struct live *live)
{
	struct live_process *first = NULL;
	unsigned int count = 0;

	for (struct live_process *p = live->processes; p; p = p->next) {
		if (!p->root || !p->is_over)
			continue;
		count++;
		if (!first || p->flushed_ns < first->flushed_ns)
			first = p;
	}
	if (count > ENDED_KEPT)
		forget(first);
}

static int on_child(void *data, const struct sink_process *process, struct trail_sink **sink)
{
	struct live_process *root = traced_by(data), *live;
	int err = process_add(root->session, process->pid, &live);

	if (err)
		return err;
	live->root = root;
	live->is_taken = 1;
	*sink = sink_of(live);
	return trail_files_begin(&live->files, process);
}

static void on_end(void *data, struct trail_sink *sink, const struct sink_ending *ending)
{
	struct live_process *root = traced_by(data), *child = root->session->live->processes;

	while (child && (child->root != root || sink_of(child) != sink))
		child = child->next;
	if (!child)
		return;
	child->is_over = 1;
	root->session->live->foreign += ending->is_foreign != 0;
	if (ending->is_over)
		look_at_end(child, ending->killed_tid, ending->killed_by);
	child->flushed_ns = ticks_monotonic_ns();
	if (child->store)
		make_way(root->session->live);
	else
		forget(child);
}

/*
 * The process's threads are stopped. Write its files now, as it may be gone when a flight recorder
 * is written. Then let_run() lets it continue. 0 or an error of the files.
 */
static int taken(struct live_process *live)
{
	live->is_taken = 1;
	live->tracer.wire.on_event = on_event;
	live->tracer.wire.on_child = on_child;
	live->tracer.wire.on_end = on_end;
	if (live->store && live->session->live->keeps) {
		kept_init(&live->kept, &live->files.sink);
		live->tracer.wire.on_sought = on_sought;
	}
	return live->store ? live->files.sink.calls->begin(&live->files.sink, live->pid) : 0;
}

/* ---- a process is taken ---- */

static int launch(struct wm_session *session, const char *path, char *const argv[],
		  char **environment)
{
	struct live_process *live;
	struct tracing_how how;
	int err = process_add(session, 0, &live);

	if (err)
		return err;
	how = how_of(session);
	how.environment = environment;
	err = tracer_launch(&live->tracer, sink_of(live), &how, path, argv);
	if (err == -WM_E_TRACE_FULL)
		session_fail(session, err, "%s", session->dir);
	else if (err)
		session_fail(session, err, "%s%s%s", path, live->tracer.detail[0] ? ": " : "",
			     live->tracer.detail);
	if (err) {
		process_remove(live);
		return err;
	}
	live->pid = live->tracer.pid;
	err = taken(live);
	return err ? err : live->pid;
}

static int launch_alone(struct wm_session *session, const char *path, char *const argv[], int error)
{
	int err = is_all(session) ? ready(session) : 0;

	if (err || !is_all(session))
		return err;
	/* what keeps an agent out is no hindrance; of other errors the session has words */
	if (error && error != -WM_E_STATIC_PROGRAM && error != -WM_E_FOREIGN_LIBC)
		return 0;
	return launch(session, path, argv, NULL);
}

static void let_run(struct live_process *live)
{
	if (!live->goes)
		tracer_go(&live->tracer);
	live->goes = 1;
}

/* A program that the recorder runs from its start, so that the agent is loaded into it. */
static int start(struct wm_session *session, const char *path, char *const argv[],
		 struct launch_options *options)
{
	struct launch_environment environment;
	int pid = ready(session);

	options->is_traced |= live_is_wanted(session);
	if (pid || !live_launches(session))
		return pid;
	pid = launch_environment_make(&environment, options);
	pid = pid ? pid : launch(session, path, argv, environment.list);
	launch_environment_release(&environment);
	if (pid > 0)
		let_run(session->live->processes);
	return pid;
}

/* Whether we may trace the process, and its program is one that we can; if not, with words. */
static int may_take(const struct target *target, struct detail detail)
{
	char path[64];
	struct elf elf;
	int err;

	err = target_may_trace(target, detail);
	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/%d/exe", target->live_tid);
	err = elf_open(&elf, path);
	elf_release(&elf);
	return err ? detail_set(detail, err, "process %d (%s) runs %s", target->pid, target->comm,
				target->exe)
		   : 0;
}

static int attach(struct wm_session *session, pid_t pid, int error)
{
	struct live_process *live;
	char words[512] = "";
	struct target target;
	int err;

	if (error)
		return 1;
	err = ready(session);
	if (err)
		return err;
	if (!is_all(session))
		return live_launches(session)
			       ? session_fail(session, -WM_E_TRAIL_ASKED,
					      "soft takes no running program together with "
					      "markers or probes")
			       : 1;
	if (live_find(session->live, pid))
		return session_fail(session, -EEXIST, "pid %d is in this session already",
				    (int)pid);
	err = target_read(&target, pid);
	if (err)
		return session_fail(session, err, "pid %d", (int)pid);
	err = may_take(&target, (struct detail){ words, sizeof(words) });
	if (err)
		return session_fail(session, err, "pid %d: %s", (int)pid, words);
	return process_add(session, pid, &live);
}

static int not_taken(struct wm_session *session, struct live_process *live, int err)
{
	char words[512] = "";
	struct target target;

	live->is_over = 1;
	if (err == -WM_E_TRACE_FULL)
		return session_fail(session, err, "%s", session->dir);
	snprintf(words, sizeof(words), "%s", live->tracer.detail);
	/* the kernel also returns EPERM if another tracer was faster */
	if (err == -EPERM && !target_read(&target, live->pid)) {
		int why = target_may_trace(&target, (struct detail){ words, sizeof(words) });

		err = why ? why : err;
	}
	return session_fail(session, err, "pid %d%s%s", (int)live->pid, words[0] ? ": " : "",
			    words);
}

/*
 * Whether arm() has nothing to do: the engine has the process already; or the process is a
 * child that the engine does not have, which counts as unfollowed.
 */
static int has_come(struct wm_session *session, const struct process *process)
{
	if (!live_launches(session))
		return 0;
	if (live_find(session->live, process->pid))
		return 1;
	session->live->unfollowed += !process->invited;
	return !process->invited;
}

/* Take the process's threads now, except the agent's. */
static int arm(struct wm_session *session, struct process *process)
{
	struct live_process *live;
	struct tracing_how how;
	int err = ready(session);

	if (err || !live_is_wanted(session) || has_come(session, process))
		return err;
	err = process_add(session, process->pid, &live);
	if (err)
		return err;
	how = how_of(session);
	err = tracer_attach(&live->tracer, sink_of(live), &how, live->pid, 0);
	err = err ? not_taken(session, live, err) : taken(live);
	if (!err)
		live_keep_at(session, process);
	return err;
}

static int take_begin(struct live_process *live)
{
	struct tracing_how how = how_of(live->session);
	int err = tracer_attach_begin(&live->tracer, sink_of(live), &how, live->pid);

	live->is_begun = !err;
	return err ? not_taken(live->session, live, err) : 0;
}

/* Look whether the process is taken; if so, let it run. Returns 1 if not yet. */
static int take_look(struct live_process *live)
{
	struct wm_session *session = live->session;
	int got = tracer_attach_look(&live->tracer);

	if (got > 0)
		return 1;
	live->is_begun = 0;
	if (!got)
		got = taken(live);
	else
		return not_taken(session, live, got);
	if (!got)
		let_run(live);
	return got;
}

/* ---- while they run ---- */

static size_t waits(const struct wm_session *session, struct pollfd *list, size_t room)
{
	size_t count = 0;

	for (const struct live_process *p = session->live->processes; p; p = p->next) {
		if (!(p->is_taken || p->is_begun) || (p->is_over && !p->is_asked) || p->is_silent ||
		    p->tracer.fd < 0)
			continue;
		if (count < room)
			list[count] = (struct pollfd){ .fd = p->tracer.fd, .events = POLLIN };
		count++;
	}
	return count;
}

/* Wait until a tracer has sent something, or for a moment. */
static void await_some(const struct wm_session *session)
{
	struct pollfd list[WAITED_MAX];
	size_t count = waits(session, list, WAITED_MAX);

	poll(list, count < WAITED_MAX ? count : WAITED_MAX,
	     count > WAITED_MAX ? WAIT_MANY_MS : WAIT_MS);
}

/* If we are killed, only the last FLUSH_NS may be missing from the folder. */
static int pump(struct live_process *live)
{
	int got = live->root ? 1 : tracer_pump(&live->tracer), err;
	uint64_t now_ns = ticks_monotonic_ns();

	if (got <= 0 || now_ns - live->flushed_ns < FLUSH_NS)
		return got;
	live->flushed_ns = now_ns;
	err = live->store ? 0 : trail_files_flush(&live->files);
	return err < 0 ? err : got;
}

/* Without words of the tracer the error is of the folder. */
static int broke_off(const struct live_process *process, int error)
{
	const char *detail = process->tracer.detail;

	if (detail[0] && !process->session->trace_error)
		process->session->explained = error;
	return session_fail(process->session, error, "pid %d%s%s", (int)process->pid,
			    detail[0] ? ": " : "", detail);
}

static int pump_all(struct wm_session *session)
{
	int err = 0, count = 0;

	for (struct live_process *p = session->live->processes; p; p = p->next) {
		int got;

		if (!p->is_taken || p->is_over)
			continue;
		got = pump(p);
		count += got > 0;
		p->is_over = got <= 0;
		if (!got && p->tracer.result.is_over)
			look_at_end(p, p->tracer.result.killed_tid, p->tracer.result.killed_by);
		if (got < 0 && !err)
			err = broke_off(p, got);
	}
	return err ? err : count;
}

/*
 * Take all processes at the same time. Read what the first ones send meanwhile, so that they don't
 * have to wait for us.
 */
static int take_all(struct wm_session *session)
{
	int err = 0, left = 1;

	for (struct live_process *p = session->live->processes; p && !err; p = p->next)
		if (!p->is_taken && !p->is_over)
			err = take_begin(p);
	while (left && !err) {
		left = 0;
		for (struct live_process *p = session->live->processes; p && err >= 0;
		     p = p->next) {
			err = p->is_begun ? take_look(p) : 0;
			left |= p->is_begun;
		}
		if (err >= 0)
			err = pump_all(session);
		err = err < 0 ? err : 0;
		if (left && !err)
			await_some(session);
	}
	return err;
}

/* Take the processes that were noted, and let all run. */
static int begin(struct wm_session *session)
{
	int err = take_all(session);

	for (struct live_process *p = session->live->processes; p && !err; p = p->next)
		if (p->is_taken && !p->root)
			let_run(p);
	return err;
}

/* ---- the end ---- */

/* Ask all tracers to let go, and read what they still send, so that none waits for another. */
static void ask_all(struct wm_session *session)
{
	uint64_t end_ns = ticks_monotonic_ns() + ASK_MS * UINT64_C(1000000);
	int left = 1;

	for (struct live_process *p = session->live->processes; p; p = p->next) {
		p->is_asked = !p->root && (p->is_taken || p->is_begun);
		if (p->is_asked)
			tracer_ask(&p->tracer);
	}
	while (left && ticks_monotonic_ns() < end_ns) {
		left = 0;
		for (struct live_process *p = session->live->processes; p; p = p->next)
			if (p->is_asked) {
				p->is_silent = !tracer_take_rest(&p->tracer);
				left |= !p->is_silent;
			}
		if (left)
			await_some(session);
	}
}

static void natives_add(struct natives *natives, const struct natives *more)
{
	for (int why = 0; why < ENGINE_NATIVES; why++) {
		if (!natives->counts[why]) {
			natives->pids[why] = more->pids[why];
			natives->after_ns[why] = more->after_ns[why];
		}
		natives->counts[why] += more->counts[why];
	}
	for (int why = 0; why < ENGINE_UNFOLLOWEDS; why++)
		natives->unfollowed[why] += more->unfollowed[why];
}

/* Stop recording the process, and let it go. */
static int stop(struct live_process *process)
{
	const struct tracing_result *result = &process->tracer.result;
	struct live *live = process->session->live;
	int err;

	if (process->root)
		return 0;
	err = process->is_taken || process->is_begun ? tracer_stop(&process->tracer) : 0;
	process->is_over = 1;
	process->is_begun = 0;
	if (!process->is_taken)
		return err;
	if (!live->losses[0])
		snprintf(live->losses, sizeof(live->losses), "%s", process->tracer.detail);
	live->foreign += result->is_foreign != 0;
	live->privileged += result->privileged;
	live->overwritten += result->overwritten;
	natives_add(&live->natives, &result->natives);
	if (result->is_over)
		look_at_end(process, result->killed_tid, result->killed_by);
	return err;
}

int live_stop(struct wm_session *session)
{
	int err = 0;

	ask_all(session);
	for (struct live_process *p = session->live->processes; p; p = p->next) {
		int got = stop(p);

		if (got < 0 && !err)
			err = session_fail(session, got, "pid %d", (int)p->pid);
	}
	for (struct live_process *p = session->live->processes; p; p = p->next) {
		int got = p->is_taken && !err ? write_down(p) : 0;

		p->is_over = 1;
		p->is_taken = 0;
		/* an error of the folder has no other detail */
		if (got < 0)
			err = session_fail(session, got, "%s", session->dir);
	}
	return err;
}

/* ---- the source ---- */

static int alive(const struct wm_session *session)
{
	int count = 0;

	for (const struct live_process *p = session->live->processes; p; p = p->next)
		count += !p->is_over;
	return count;
}

static int running(const struct wm_session *session, pid_t pid)
{
	int count = 0;

	for (const struct live_process *p = session->live->processes; p; p = p->next)
		count += !p->is_over && (!pid || p->pid == pid) &&
			 target_state_lives(target_thread_state(p->pid, p->pid));
	return count;
}

/*
 * What the folder lacks of the blocks that came, and of the threads that should have a trail there.
 */
static void count_unwritten(const struct live *live, struct wm_session_status *status)
{
	uint64_t blocks = live->blocks_written + status->trail_lost;
	uint32_t written = live->threads_written, threads = 0;
	int is_any = live->is_unwritten;

	for (const struct live_process *p = live->processes; p; p = p->next) {
		struct trail_store_status store = { 0 };

		if (p->store)
			trail_store_status(p->store, &store);
		threads += p->store ? store.threads : p->tracer.wire.threads_ever;
		blocks += p->files.trail.blocks_written;
		written += p->files.trail.threads_written;
		is_any |= is_unwritten(p);
	}
	if (!is_any || (live->trigger != TRIGGER_NONE && !live->fired.has))
		return;
	status->trail_unwritten = status->trail_blocks > blocks ? status->trail_blocks - blocks : 0;
	status->trail_unwritten_threads = threads > written ? threads - written : 0;
}

static void status_fill(const struct wm_session *session, struct wm_session_status *status)
{
	const struct live *live = session->live;

	status->trail_processes = live->gone;
	status->trail_unfollowed = live->unfollowed;
	status->trail_lost = live->gone_blocks;
	for (const struct live_process *p = live->processes; p; p = p->next) {
		status->trail_instructions += p->tracer.wire.instructions;
		status->trail_blocks += p->tracer.wire.blocks;
		status->trail_threads += p->tracer.wire.threads_ever;
		status->trail_processes++;
		status->trail_unfollowed += p->tracer.result.unfollowed;
		status->trail_words_bytes += p->tracer.result.words * sizeof(uint32_t);
		if (p->store)
			status->trail_lost += lost_blocks(p->store, 0);
	}
	count_unwritten(live, status);
}

static void release_all(struct wm_session *session)
{
	live_stop(session);
	while (session->live->processes)
		process_remove(session->live->processes);
}

static int owns(const struct spec *spec)
{
	return spec->trail != NULL;
}

/* Tell the trace's readers what a killed recorder takes with it. */
static int open_folder(struct wm_session *session)
{
	const struct trail_request *trail = spec_trail(session->specs);
	int err = live_keep_ready(session);

	if (err || !session->writer || !trail || !trail->last_bytes ||
	    session->options.policy == WM_POLICY_CYCLIC)
		return err;
	err = trace_in_memory_add(session->writer, "branches");
	return err ? session_fail(session, err, "%s", session->dir) : 0;
}

const struct source trail_source = {
	.owns = owns,
	.open = open_folder,
	.arm = arm,
	.begin = begin,
	.pump = pump_all,
	.waits = waits,
	.alive = alive,
	.running = running,
	.status = status_fill,
	.attach = attach,
	.launch = launch_alone,
	.start = start,
	.leave = live_stop,
	.findings = trail_findings,
	.release = release_all,
};
