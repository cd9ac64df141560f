/* SPDX-License-Identifier: MIT */
/*
 * A process of Waymark's that traces another one (tracing.h), and reports over a socket what ran
 * (wire.h). It takes no signals and has no terminal; when the tool ends in any way, it sees the
 * socket closed and detaches in order. A kill of it ends the trail, not the program.
 *
 * One thread at a time uses a tracer; it forks.
 */
#ifndef RECORD_TRAIL_TRACER_H
#define RECORD_TRAIL_TRACER_H

#include "record/trail/soft/wire.h"
#include "record/trail/tracing.h"

struct tracer {
	pid_t pid;     /* the program's */
	pid_t process; /* ours; 0: none, or reaped */
	int fd;
	uint64_t start_end_ns;		   /* it has to have started by then */
	int has_started, is_over;	   /* it said so */
	int left;			   /* threads that it still waits to let go */
	uint32_t fetched;		   /* tracer_fetch()es that were answered */
	struct tracing_result result;	   /* once it is over, except what was recorded */
	int error;			   /* why it could not start, or broke off */
	char detail[TRACING_DETAIL_BYTES]; /* more about that, or about losses; "": nothing */
	struct wire_out wire;
};

/*
 * Start a program as a child, stopped before its first instruction; or attach to a running one and
 * stop its threads. The trail comes out at `sink`, which must outlive the tracer. With
 * how->follows the caller sets wire.on_child before it lets them run. Waits until that is done.
 * Returns 0, or a negative error; nothing is left to release then, and `detail` stays.
 */
int tracer_launch(struct tracer *tracer, struct trail_sink *sink, const struct tracing_how *how,
		  const char *path, char *const argv[]);
int tracer_attach(struct tracer *tracer, struct trail_sink *sink, const struct tracing_how *how,
		  pid_t pid, pid_t only);

/*
 * The same in two, so that several are taken at once: begin; then look, whenever there is something
 * to be read at tracer->fd. 1: not yet; 0 or an error as above.
 */
int tracer_attach_begin(struct tracer *tracer, struct trail_sink *sink,
			const struct tracing_how *how, pid_t pid);
int tracer_attach_look(struct tracer *tracer);

/* Let it run. */
void tracer_go(struct tracer *tracer);

/*
 * tracer_fetch(): have it put what was recorded until now; `fetched` counts up when all of that
 * was taken. tracer_discard(): have it let the program go, and put nothing more into the sink.
 * Both in any thread, between tracer_go() and tracer_stop(). Return whether it was asked.
 */
int tracer_fetch(struct tracer *tracer);
void tracer_discard(struct tracer *tracer);

/*
 * Take what has come, without waiting. 1, 0 when it is over, or a negative error: of the sink,
 * -WM_E_TRAIL_ENDED.
 */
int tracer_pump(struct tracer *tracer);

/*
 * Have it let the program go; then take what has come of that, without waiting, before
 * tracer_stop(). 1: more may come.
 */
void tracer_ask(struct tracer *tracer);
int tracer_take_rest(struct tracer *tracer);

/* Have it let the program go, take what is left, and release all. An error as above, the first. */
int tracer_stop(struct tracer *tracer);

#endif
