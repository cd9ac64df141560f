/* SPDX-License-Identifier: MIT */
/* waymark/trail.h's own: a trail, live or read. For trail.c and walk.c alone. */
#ifndef RECORD_TRAIL_TRAIL_H
#define RECORD_TRAIL_TRAIL_H

#include "record/trail/snapshot.h"
#include "record/trail/store.h"
#include "record/trail/tracer.h"

#include <pthread.h>
#include <stdint.h>
#include <waymark/trail.h>

#define TRAIL_DETAIL_BYTES 512
#define TRAIL_ORIGIN_ORACLE ((enum wm_trail_origin)1) /* ORIGIN_ORACLE */

struct ledger;

struct wm_trail {
	/* the process that opened it: in a forked child nothing is left of it but this */
	pid_t owner;
	pid_t pid;
	char detail[TRAIL_DETAIL_BYTES];
	struct wm_trail_options options;
	uint64_t capped_bytes;
	struct ledger *ledger; /* has its locked memory; NULL: none is locked */

	pthread_mutex_t lock; /* guards the members down to `recorded`; lock: any thread */
	pthread_cond_t changed;
	struct trail_store *store;
	uint64_t read, unfollowed;
	enum wm_trail_state state;
	int error;
	int must_end;
	uint32_t fetch_asked, fetch_done; /* how often what was recorded was to be sent, and was */
	uint64_t fetched_ns;		  /* when it was last, of CLOCK_MONOTONIC */

	/* the thread that takes what the tracer sends, and its own */
	pthread_t thread;
	int has_thread;
	struct tracing_how how;
	struct tracer tracer;
	int is_traced;		/* any thread may use the tracer; under the lock */
	struct trail_sink sink; /* between tracer and store */
	struct sink_thread *last;
	uint64_t last_next; /* the address behind that thread's last block */

	struct recorded *recorded; /* read from a folder; NULL: live */

	/*
	 * wm_trail_fd(): an eventfd, and whether it is readable. -1: the caller did not ask for it.
	 * Under the lock.
	 */
	int fd;
	int is_raised;
};

/* Note words for wm_trail_detail(); returns `error`. */
int trail_fail(struct wm_trail *trail, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* wm_trail_launch() on another machine than this. */
int trail_launch_on(struct wm_trail **out, char *const argv[],
		    const struct wm_trail_options *options, const struct origin_machine *machine);

/*
 * A call that reads begins: no cancellation, and the lock; with what was recorded by now, or little
 * less. 0, -EINVAL, -ECHILD, -EDEADLK, with nothing taken. `state` is for trail_leave().
 */
int trail_enter_reading(struct wm_trail *trail, int *state);
void trail_leave(struct wm_trail *trail, int state);

/* A call has what was there until now. The descriptor stays readable once the trail is over. */
void trail_fd_lower(struct wm_trail *trail);

/* Read from a folder. */
struct recorded {
	struct trace_reader *reader;
	struct trails trails;
	struct path_index *paths; /* of each thread, counted */
	size_t count;
};

/*
 * The store's thread of that id, or the recorded path; tid 0: the first. NULL: not found. Under the
 * lock.
 */
struct store_thread *trail_thread_of(const struct wm_trail *trail, pid_t tid);
struct branch_thread trail_thread_name(const struct wm_trail *trail,
				       const struct store_thread *thread);
const struct path_index *trail_recorded_path(const struct wm_trail *trail, pid_t tid);

#endif
