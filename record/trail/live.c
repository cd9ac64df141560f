/* SPDX-License-Identifier: MIT */
#include "record/trail/live_process.h"

#include "base/elf.h"
#include "record/session/process.h"
#include "record/spec/spec.h"
#include "record/trail/soft/soft_channel.h"
#include "record/trail/tracer.h"
#include "record/trail/store.h"
#include "record/trail/trace_sink.h"
#include "target/process/program.h"
#include "target/process/target.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <waymark/error.h>

#define FLUSH_NS 500000000u
#define ENDED_KEPT 64u /* flight recorders of ended children, at most */

int live_is_wanted(const struct wm_session *session)
{
	return spec_trail(session->specs) != NULL;
}

int live_is_all(const struct wm_session *session)
{
	size_t others = 0;

	for (size_t i = 0; i < session->specs->count; i++)
		others += !session->specs->all[i].kernel;
	return live_is_wanted(session) && others == 1;
}

/* How many blocks a flight recorder has lost, or will have lost once it is dropped. */
static uint64_t lost_blocks(const struct trail_store *store, int is_gone)
{
	struct trail_store_status status;

	trail_store_status(store, &status);
	return status.lost_blocks + (is_gone ? status.blocks : 0);
}

int live_add(struct wm_session *session, pid_t pid, struct live_process **out)
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

struct trail_sink *live_sink_of(struct live_process *live)
{
	return live->store ? trail_store_sink(live->store) : &live->files.sink;
}

/* Whether the folder did not take what it should have. */
static int is_unwritten(const struct live_process *process)
{
	return process->files.trail.error || process->tracer.wire.error;
}

static void release(struct live_process *process)
{
	struct live *live = process->session->live;

	live->blocks_written += process->files.trail.blocks_written;
	live->threads_written += process->files.trail.threads_written;
	live->is_unwritten |= is_unwritten(process);
	trail_files_release(&process->files);
	trail_store_close(process->store);
	free(process);
}

/* Drop the newest process, which could not be started. */
static void drop(struct wm_session *session)
{
	struct live_process *dropped = session->live->processes;

	session->live->processes = dropped->next;
	release(dropped);
}

struct tracing_how live_how_of(const struct wm_session *session)
{
	const struct trail_request *request = spec_trail(session->specs);
	const struct live *live = session->live;
	/* a signal may come at any time: then all earlier blocks must have been sent to us */
	int is_late = live->trigger != TRIGGER_SIGNAL && !live->keeps;

	/* children with an agent are taken by live_join() */
	return (struct tracing_how){
		.origin = live->origin,
		.machine = live->machine,
		.follows = (live->origin == ORIGIN_SOFT || live->origin == ORIGIN_ORACLE) &&
			   live_is_all(session) && session->options.follow != WM_FOLLOW_NONE,
		.only = live->keeps ? &live->keeps_only : &request->only,
		.last_bytes = is_late ? request->last_bytes : 0,
		.has_kernel = request->has_kernel,
	};
}

/* Keep only the errors that also forbid a trail, not those that only keep an agent out. */
static int program_error(int err)
{
	return err == -WM_E_STATIC_PROGRAM || err == -WM_E_FOREIGN_LIBC ? 0 : err;
}

struct live_process *live_process_of(void *tracer)
{
	return (struct live_process *)((char *)tracer - offsetof(struct live_process, tracer));
}

/* A thread triggered the flight recorders: record nothing of any thread from then on. */
static void fire(struct wm_session *session, const struct live_fired *fired)
{
	if (session->live->fired.has)
		return;
	session->live->fired = *fired;
	session->live->fired.has = 1;
	for (struct live_process *p = session->live->processes; p; p = p->next)
		p->tracer.wire.is_frozen |= !p->root;
}

static void on_event(void *data, pid_t pid, pid_t tid, const struct trail_between *between)
{
	struct live_process *process = live_process_of(data);
	const struct live *live = process->session->live;
	int signal = (int)between->values[0];

	if (live->trigger == TRIGGER_SIGNAL && between->event == TRAIL_SIGNAL &&
	    (!live->signal || live->signal == signal))
		fire(process->session,
		     &(struct live_fired){ .pid = pid, .tid = tid, .signal = signal });
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

/* A process has ended: fire if that is the trigger. */
static void look_at_end(struct live_process *process, const struct live_fired *how)
{
	const struct live *live = process->session->live;
	int signal = how->signal, fires = 0;

	if (live->trigger == TRIGGER_EXIT)
		fires = !process->root;
	else if (live->trigger == TRIGGER_CRASH)
		fires = dumps_core(signal);
	else if (live->trigger == TRIGGER_SIGNAL)
		fires = signal && (!live->signal || live->signal == signal);
	if (fires)
		fire(process->session, how);
}

/* ---- children ---- */

/* Add the process to the counts and free it. */
static void forget(struct live_process *process)
{
	struct live *live = process->session->live;
	struct live_process **at = &live->processes;

	while (*at != process)
		at = &(*at)->next;
	*at = process->next;
	live->ended++;
	live->foreign += process->is_foreign != 0;
	if (process->store)
		live->forgotten += lost_blocks(process->store, 1);
	release(process);
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
	struct live_process *root = live_process_of(data), *live;
	int err = live_add(root->session, process->pid, &live);

	if (err)
		return err;
	live->root = root;
	live->is_taken = 1;
	*sink = live_sink_of(live);
	return trail_files_begin(&live->files, process);
}

static void on_end(void *data, struct trail_sink *sink, const struct sink_ending *ending)
{
	struct live_process *root = live_process_of(data), *child = root->session->live->processes;

	while (child && (child->root != root || live_sink_of(child) != sink))
		child = child->next;
	if (!child)
		return;
	child->is_over = 1;
	child->is_foreign = ending->is_foreign;
	if (ending->is_over)
		look_at_end(child,
			    &(struct live_fired){ .pid = child->pid,
						  .tid = ending->killed_tid ? ending->killed_tid
									    : child->pid,
						  .signal = ending->killed_by });
	child->flushed_ns = ticks_monotonic_ns();
	if (child->store)
		make_way(root->session->live);
	else
		forget(child);
}

/*
 * The process's threads are stopped. Write its files now, as it may be gone when a flight recorder
 * is written.
 */
int live_taken(struct live_process *live)
{
	live->is_taken = 1;
	live->tracer.wire.on_event = on_event;
	live->tracer.wire.on_child = on_child;
	live->tracer.wire.on_end = on_end;
	live_keep_begin(live);
	return live->store ? live->files.sink.calls->begin(&live->files.sink, live->pid) : 0;
}

static int launch(struct wm_session *session, const char *path, char *const argv[],
		  char **environment)
{
	struct live_process *live;
	struct tracing_how how;
	int err = live_add(session, 0, &live);

	if (err)
		return err;
	how = live_how_of(session);
	how.environment = environment;
	err = tracer_launch(&live->tracer, live_sink_of(live), &how, path, argv);
	if (err == -WM_E_TRACE_FULL)
		session_fail(session, err, "%s", session->dir);
	else if (err)
		session_fail(session, err, "%s%s%s", path, live->tracer.detail[0] ? ": " : "",
			     live->tracer.detail);
	if (err) {
		drop(session);
		return err;
	}
	live->pid = live->tracer.pid;
	err = live_taken(live);
	return err ? err : live->pid;
}

int live_launch(struct wm_session *session, char *const argv[])
{
	struct program program;
	int err = live_ready(session);

	if (err)
		return err;
	err = program_error(program_find(&program, argv[0]));
	if (err)
		return session_fail(session, err, "%s",
				    program.binary[0] ? program.binary : argv[0]);
	return launch(session, program.path, argv, NULL);
}

void live_go(struct live_process *live)
{
	if (!live->goes)
		tracer_go(&live->tracer);
	live->goes = 1;
}

int live_launch_with(struct wm_session *session, const char *path, char *const argv[],
		     char **environment)
{
	int pid = launch(session, path, argv, environment);

	if (pid > 0)
		live_go(session->live->processes);
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

int live_attach(struct wm_session *session, pid_t pid)
{
	struct live_process *live;
	char words[512] = "";
	struct target target;
	int err = live_ready(session);

	if (err)
		return err;
	for (struct live_process *p = session->live->processes; p; p = p->next)
		if (p->pid == pid)
			return session_fail(session, -EEXIST, "pid %d is in this session already",
					    (int)pid);
	err = target_read(&target, pid);
	if (err)
		return session_fail(session, err, "pid %d", (int)pid);
	err = may_take(&target, (struct detail){ words, sizeof(words) });
	if (err)
		return session_fail(session, err, "pid %d: %s", (int)pid, words);
	return live_add(session, pid, &live);
}

static void look_at_root(struct live_process *process)
{
	const struct tracing_result *result = &process->tracer.result;

	look_at_end(process, &(struct live_fired){ .pid = process->pid,
						   .tid = result->killed_tid ? result->killed_tid
									     : process->pid,
						   .signal = result->killed_by });
}

/* If we are killed, only the last FLUSH_NS may be missing from the folder. */
static int flush(struct live_process *live)
{
	uint64_t now_ns = ticks_monotonic_ns();

	if (now_ns - live->flushed_ns < FLUSH_NS)
		return 0;
	live->flushed_ns = now_ns;
	return live->store ? 0 : trail_files_flush(&live->files);
}

static int pump(struct live_process *live)
{
	int got, err;

	if (live->root) {
		err = flush(live);
		return err < 0 ? err : 1;
	}
	got = tracer_pump(&live->tracer);
	err = got > 0 ? flush(live) : 0;
	return err < 0 ? err : got;
}

int live_pump(struct wm_session *session)
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
			look_at_root(p);
		if (got < 0 && !err)
			err = live_broke_off(session, &p->tracer, p->pid, got);
	}
	return err ? err : count;
}

/* Write a flight recorder to the folder, unless its trigger has not fired. */
static int write_down(struct live_process *live)
{
	const struct live *all = live->session->live;

	if (!live->store || (all->trigger != TRIGGER_NONE && !all->fired.has))
		return 0;
	if (all->keeps)
		return live_keep_end(live);
	return trail_store_write(live->store, &live->files.sink);
}

static void note_losses(struct live_process *process)
{
	struct live *live = process->session->live;

	if (!live->losses[0])
		snprintf(live->losses, sizeof(live->losses), "%s", process->tracer.detail);
	live->overwritten += process->tracer.result.overwritten;
	native_add(&live->natives, &process->tracer.result.natives);
}

/* Stop recording the process, and let it go. */
static int stop(struct live_process *live)
{
	int err;

	if (live->root)
		return 0;
	err = live->is_taken || live->is_begun ? tracer_stop(&live->tracer) : 0;
	if (live->is_taken)
		note_losses(live);
	if (live->is_taken && live->tracer.result.is_over)
		look_at_root(live);
	live->is_over = 1;
	live->is_begun = 0;
	return err;
}

int live_stop(struct wm_session *session)
{
	int err = 0;

	live_ask_all(session);
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

int live_count(const struct wm_session *session)
{
	int count = 0;

	for (const struct live_process *p = session->live->processes; p; p = p->next)
		count += !p->is_over;
	return count;
}

int live_running(const struct wm_session *session, pid_t pid)
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
static void count_unwritten(const struct live *live, struct live_counts *counts)
{
	uint64_t blocks = live->blocks_written + counts->lost;
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
	counts->unwritten = counts->blocks > blocks ? counts->blocks - blocks : 0;
	counts->unwritten_threads = threads > written ? threads - written : 0;
}

void live_counts(const struct wm_session *session, struct live_counts *counts)
{
	*counts = (struct live_counts){ .processes = session->live->ended,
					.foreign = session->live->foreign,
					.unfollowed = session->live->unfollowed,
					.lost = session->live->forgotten };
	for (const struct live_process *p = session->live->processes; p; p = p->next) {
		counts->instructions += p->tracer.wire.instructions;
		counts->blocks += p->tracer.wire.blocks;
		counts->threads += p->tracer.wire.threads_ever;
		counts->processes++;
		counts->unfollowed += p->tracer.result.unfollowed;
		counts->words += p->tracer.result.words;
		counts->privileged += p->tracer.result.privileged;
		counts->foreign += p->is_foreign || p->tracer.result.is_foreign;
		if (p->store)
			counts->lost += lost_blocks(p->store, 0);
	}
	count_unwritten(session->live, counts);
}

void live_release(struct wm_session *session)
{
	live_stop(session);
	while (session->live->processes)
		drop(session);
}
