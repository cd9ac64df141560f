/* SPDX-License-Identifier: MIT */
/*
 * Thread-local variables: which thread is meant, where its copy is, and when that thread has ended.
 */
#ifndef RECORD_WATCH_THREAD_VARIABLE_H
#define RECORD_WATCH_THREAD_VARIABLE_H

#include "target/expression/watch_place.h"

#include <stdint.h>
#include <sys/types.h>

struct loaded_list;
struct wm_session;

struct thread_owner {
	pid_t tid; /* 0: it belongs to no thread */
	uint64_t start_time;
	/*
	 * where the C library keeps the tid, which the kernel clears when the thread ends; 0: a
	 * main thread
	 */
	uint64_t word;
	uint32_t number; /* the tid in that word */
};

/*
 * Whether an expression applies to a process. Returns 1, also if it names no thread; 0 if its
 * thread is in another process of this session; or -WM_E_WATCH_NO_TID with words.
 */
int thread_concerns(const struct wm_session *session, pid_t pid, const struct watch_expr *expr,
		    struct watch_trouble *trouble);

/*
 * For a place of WATCH_IN_THREAD or WATCH_IN_BLOCK: find the base that watch_place_address() adds,
 * in the thread `tid` or WATCH_THREAD_MAIN. Stops the thread for a moment. Returns 0, or with words
 * -WM_E_WATCH_NO_TID, -WM_E_WATCH_NO_BLOCK, -WM_E_WATCH_BLOCKS, -WM_E_TRACED or others.
 */
int thread_find(struct thread_owner *owner, uint64_t *base, pid_t pid,
		const struct watch_place *place, pid_t tid, struct loaded_list *list,
		struct watch_trouble *trouble);

/* Whether the thread has ended. 0 for a main thread, whose variables end with the process. */
int thread_has_ended(const struct thread_owner *owner, pid_t pid);

#endif
