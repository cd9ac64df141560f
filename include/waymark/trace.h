/* SPDX-License-Identifier: MIT */
/*
 * Traces: read back what was recorded into a folder, event by event. Link with -lwaymark.
 *
 *	struct wm_trace *trace;
 *	const struct wm_event *event;
 *	int got = wm_trace_open(&trace, "db.trace", NULL);
 *
 *	while (got >= 0 && (got = wm_trace_next(trace, &event)) > 0)
 *		...
 *	wm_trace_close(trace);
 *
 * Threads, cancellation and fork. Any thread may call these functions. One thread at a time uses an
 * object; different objects are independent. A signal handler must not call them. No call is a
 * cancellation point: pthread_cancel(3) takes effect after it. An object belongs to the process
 * that made it. In a forked child of that process, only the function that closes it works; it
 * leaves the parent's object as it is, and the others return -ECHILD. A function with another rule
 * says so.
 *
 * Traces are such an exception: a forked child has a copy of its own, which it may read and must
 * close. Traces of one folder are independent, too.
 *
 * Functions return 0 or more for success and a negative error (waymark/error.h) for failure. All
 * return -EINVAL if a required pointer is NULL.
 *
 * Nothing in a folder is trusted: a damaged or forged trace ends in errors and records of damage.
 * Memory is bounded by a few times the size of the facts, plus 64 MiB, or more if there are many
 * threads at the same time: 16 KiB for each, and 16 MiB in a forged trace. A compressed stream is
 * unpacked in memory whole. All together may take half of the machine's; the rest is damage.
 */
#ifndef WAYMARK_TRACE_H
#define WAYMARK_TRACE_H

#include <stddef.h>
#include <stdint.h>
#include <waymark/session.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wm_trace;

/* Set `size` to sizeof(struct wm_trace_options). 0 in a field leaves it at its default. */
struct wm_trace_options {
	size_t size;
	/*
	 * Skip events before this time, in ns of the wall clock, and losses before it. Default:
	 * none.
	 */
	uint64_t from_realtime_ns;
};

#define WM_TRACE_OPTIONS_INIT WM__INIT(wm_trace_options)

/*
 * Open a trace folder. `options` may be NULL. *trace is released with wm_trace_close(); it is NULL
 * after an error. Of a trace that is still being recorded you read what was written until now. It
 * waits, a minute at most, while another program repairs or compresses the folder. 0, also if the
 * trace is damaged: wm_trace_next() reports that. Or:
 *
 *	-EINVAL			an option is wrong
 *	-E2BIG			it has options that this version does not know
 *	-WM_E_NOT_A_TRACE	the folder has no facts that this version can read
 *	-WM_E_TRACE_IN_USE	another program has had the folder locked for that minute
 *	-ENOENT, -EACCES, -EMFILE, ...	the folder or a file in it can't be opened
 *	-ENOMEM
 */
int wm_trace_open(struct wm_trace **trace, const char *dir, const struct wm_trace_options *options);

/*
 * The next event of all threads, in order of time. Events of one thread and one depth of signal
 * handlers keep their order; events of the same nanosecond come in any order. *event, with all that
 * it points to, is valid until the next call for this trace. Branch traces are among the events as
 * trail:*; read them with wm_trail_read() of waymark/trail.h.
 *
 * `kind` of an event is 'm', 'i', 'b' or 'e', as of wm_session_read(). These kinds are records:
 *
 *	's'  "waymark:start": the process is recorded from now on, launched or attached to.
 *	'f'  "waymark:fork": a recorded process forked this one. The time is the kernel's, up to
 *	     10 ms early.
 *	'x'  "waymark:exec": the process runs another program from now on. Also of a process that
 *	     was spawned (posix_spawn(3)): it has no "waymark:fork".
 *	     All three have the fields `ppid` (uint32) and `program` (string: a path).
 *	'q'  "waymark:end": the process has ended; without fields. No record comes if the recording
 *	     ended first, or if the process had executed a program that can't be recorded.
 *	'l'  "waymark:lost": before this time the thread lost so many `events`, and so many
 *	     `packets` of unknown events are missing (both uint64). With pid and tid 0: at the end,
 *	     losses whose thread is unknown. With a cpu: losses of all threads on that CPU.
 *	'd'  "waymark:damage": `bytes` at `offset` of `file` could not be read; `what` says why
 *	     (string, uint64, uint64, string). The pid and tid are 0. The first 1000 places have a
 *	     record each; a last one counts the others.
 *
 * Records of processes have tid 0.
 *
 * Returns 1, 0 after the last, with *event NULL, or a negative error, again at each later call:
 * -ENOMEM.
 */
int wm_trace_next(struct wm_trace *trace, const struct wm_event **event);

/*
 * What the last error or record of damage was about, in words: a file and a place; or "". Valid
 * until the next call for this trace. NULL gives "".
 */
const char *wm_trace_detail(const struct wm_trace *trace);

/* Release everything. NULL is allowed. */
void wm_trace_close(struct wm_trace *trace);

#ifdef __cplusplus
}
#endif
#endif
