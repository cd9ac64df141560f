/* SPDX-License-Identifier: MIT */
/*
 * The folders that a session writes: the first one, those that follow it, and snapshots of what it
 * keeps in memory.
 */
#include "record/session/process.h"
#include "record/session/sources.h"
#include "record/session/unrecorded.h"
#include "record/spec/spec.h"
#include "target/process/call.h"
#include "trace/writer.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define SNAPSHOT_STEP_MS 5

/* ---- the first ---- */

/* The session has a writer now: add the processes that are here already. */
static int tell_processes(struct wm_session *session)
{
	int err = 0;

	for (struct process *p = session->processes; p && err >= 0; p = p->next)
		err = process_trace(session, p);
	return err < 0 ? err : 0;
}

int wm_session_output(struct wm_session *session, const char *dir)
{
	struct session_call call SESSION_CALL = session_call_begin();
	int err = dir ? session_call_refused(session) : -EINVAL;

	if (err)
		return err;
	if (session->running || session->writer || session->is_written)
		return session_fail(session, -EBUSY, "%s", dir);
	err = trace_writer_open(&session->writer, dir);
	if (err)
		return session_fail(session, err, "%s", dir);
	session->dir = strdup(dir);
	if (!session->dir)
		return -ENOMEM;
	err = tell_processes(session);
	return err ? session_fail(session, err, "%s", dir) : 0;
}

int session_folders_refused(struct wm_session *session)
{
	if (spec_trail(session->specs))
		return session_fail(
			session, -EINVAL,
			"a trail is written to one folder; trail/last=SIZE/ keeps its end");
	if (session->options.policy == WM_POLICY_CYCLIC)
		return session_fail(
			session, -EINVAL,
			"with the cyclic policy events stay in the program until the end");
	return 0;
}

int wm_session_keep(struct wm_session *session, uint64_t bytes, uint64_t age_ns)
{
	struct session_call call SESSION_CALL = session_call_begin();
	int err = bytes || age_ns ? session_call_refused(session) : -EINVAL;

	if (err)
		return err;
	if (session->running || session->writer || session->is_written)
		return session_fail(session, -EBUSY, "the session has a folder, or runs");
	err = session_folders_refused(session);
	if (!err && session->options.policy == WM_POLICY_NOTIFY)
		err = session_fail(
			session, -EINVAL,
			"with the notify policy events stay in the program up to the watermark");
	if (err)
		return err;
	err = trace_writer_keep(&session->writer, bytes, age_ns);
	session->is_kept = !err;
	return err ? err : tell_processes(session);
}

/* ---- the end of a folder ---- */

uint64_t session_kept_ns(const struct wm_session *session)
{
	uint64_t all_ns = ticks_monotonic_ns() - session->started_ns;
	uint64_t kept_ns = trace_kept_ns(session->writer);

	/* a packet comes when its page is full or read */
	if (kept_ns)
		kept_ns += SESSION_PARTS_NS;
	return kept_ns < all_ns ? kept_ns : all_ns;
}

/* Write the clocks' rates to the trace; they are more exact now, after a longer time. */
static void note_length(struct wm_session *session)
{
	struct wm_session_status status = { .size = sizeof(status) };
	uint64_t hz, kept_ns, length_ns = 0;
	struct ticks_point now;
	int err;

	ticks_now(STORE_CLOCK_TSC, &now);
	hz = ticks_hz_between(&session->began, &now);
	err = trace_clock_set(session->writer, hz ? hz : session->tsc_hz, session->began.ticks,
			      session->began.realtime_ns);
	if (!err)
		err = trace_clock_set(session->writer, 1000000000u, session->began.monotonic_ns,
				      session->began.realtime_ns);
	if (err && !session->trace_error)
		session->trace_error = err;
	wm_session_status_get(session, &status);
	kept_ns = session_kept_ns(session);
	if (session->started_ns)
		length_ns = ticks_monotonic_ns() -
			    (session->folder_ns ? session->folder_ns : session->started_ns);
	trace_end_set(session->writer,
		      &(struct trace_end){
			      .length_ns = session->is_kept && kept_ns < length_ns ? kept_ns
										   : length_ns,
			      .discarded = status.discarded,
			      .unwritten_blocks = status.trail_unwritten,
			      .unwritten_threads = status.trail_unwritten_threads,
		      });
}

/* Note all that a folder ends with. Returns the first error. */
static int note_end(struct wm_session *session)
{
	note_length(session);
	FOR_SOURCES(source, results)
		source->results(session);
	for (size_t i = 0; i < session->unrecorded->count; i++) {
		const struct unrecorded *one = &session->unrecorded->all[i];
		char reason[PATH_MAX + 256];

		snprintf(reason, sizeof(reason), "%s%s%s", wm_error_text(one->error),
			 one->detail ? ": " : "", one->detail ? one->detail : "");
		trace_unrecorded_add(session->writer, one->program, one->processes, reason);
	}
	if (session->unrecorded->unnamed)
		trace_unrecorded_add(session->writer, "others", session->unrecorded->unnamed,
				     UNRECORDED_UNNAMED);
	return trace_perf_maps_copy(session->writer);
}

int session_folder_close(struct wm_session *session)
{
	int copied = session->is_kept ? 0 : note_end(session);
	int closed = trace_writer_close(session->writer);
	int err = closed ? closed : copied;

	session->writer = NULL;
	session->is_written = 1;
	if (err && !session->trace_error)
		session->trace_error = err;
	return session->trace_error;
}

/* ---- the next one ---- */

/* Take what has come by now, also of pages that are not full. */
static int gather(struct wm_session *session)
{
	int got;

	session->parts_ns = 0;
	got = session_step(session, 0);
	return got < 0 ? got : 0;
}

int wm_session_rotate(struct wm_session *session, const char *dir)
{
	struct session_call call SESSION_CALL = session_call_begin();
	int err = dir ? session_call_refused(session) : -EINVAL, gathered;
	char *name;

	if (err)
		return err;
	if (!session->writer)
		return session_fail(session, -EINVAL, "%s: the session writes no folder", dir);
	err = session_folders_refused(session);
	if (err)
		return err;
	gathered = gather(session);
	/* what a session that fails has in memory is of before that */
	if (gathered && !session->is_kept)
		return gathered;
	name = strdup(dir);
	err = name ? trace_next_open(session->writer, dir) : -ENOMEM;
	if (err) {
		free(name);
		return session_fail(session, err, "%s", dir);
	}
	if (!session->is_kept)
		err = note_end(session);
	free(session->dir);
	session->dir = name;
	session->folder_ns = ticks_monotonic_ns() - session_kept_ns(session);
	session->trace_error = trace_next_begin(session->writer);
	if (session->is_kept && !session->trace_error)
		session->trace_error = trace_kept_write(session->writer);
	session->is_kept = 0;
	FOR_SOURCES(source, folder)
		source->folder(session);
	err = gathered ? gathered : session->trace_error ? session->trace_error : err;
	return err ? session_fail(session, err, "%s", dir) : 0;
}

/* ---- snapshots ---- */

struct snapshot_writing {
	struct trace_snapshot *snapshot;
	int error;
	atomic_int is_done; /* released by the thread, acquired by who waits */
};

static void *write_it(void *data)
{
	struct snapshot_writing *writing = data;

	writing->error = trace_snapshot_write(writing->snapshot);
	atomic_store_explicit(&writing->is_done, 1, memory_order_release);
	return NULL;
}

/* Write it in a thread, while the session continues: its buffers would run over. */
static int write_aside(struct wm_session *session, struct trace_snapshot *snapshot)
{
	struct snapshot_writing writing = { .snapshot = snapshot };
	sigset_t all, before;
	pthread_t thread;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, NULL, write_it, &writing);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		write_it(&writing);
		return writing.error;
	}
	while (!atomic_load_explicit(&writing.is_done, memory_order_acquire))
		if (session_step(session, SNAPSHOT_STEP_MS) < 0)
			break;
	pthread_join(thread, NULL);
	return writing.error;
}

int wm_session_snapshot(struct wm_session *session, const char *dir)
{
	struct session_call call SESSION_CALL = session_call_begin();
	int err = dir ? session_call_refused(session) : -EINVAL, noted, written = 0, before;
	struct trace_snapshot *snapshot;

	if (err)
		return err;
	if (!session->is_kept || !session->writer)
		return session_fail(session, -EINVAL, "%s: the session keeps nothing in memory",
				    dir);
	FOR_SOURCES(source, folder)
		source->folder(session);
	err = gather(session);
	if (err)
		return err;
	err = trace_next_open(session->writer, dir);
	if (err)
		return session_fail(session, err, "%s", dir);
	before = session->trace_error; /* what fails here ends no recording */
	err = trace_next_begin(session->writer);
	noted = note_end(session);
	session->trace_error = before;
	err = err ? err : noted;
	noted = trace_snapshot_take(session->writer, &snapshot);
	if (snapshot) {
		written = write_aside(session, snapshot);
		trace_snapshot_free(snapshot);
	}
	err = err ? err : noted ? noted : written;
	return err ? session_fail(session, err, "%s", dir) : 0;
}
