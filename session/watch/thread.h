/* SPDX-License-Identifier: MIT */
/* Variables that each thread has one of: whose is meant, where it lies, and until when it is that thread's. */
#ifndef SESSION_WATCH_THREAD_H
#define SESSION_WATCH_THREAD_H

#include "code/watch/place.h"

#include <stdint.h>
#include <sys/types.h>

struct loaded_list;
struct wm_session;

struct thread_owner {
	pid_t tid; /* 0: it is no thread's */
	uint64_t start_time;
	/* where the C library keeps its number, which the kernel clears at its end; 0: it ends with the process */
	uint64_t word;
	uint32_t number; /* what stands there */
};

/*
 * Whether the expression is meant for a process: 1, also where it names no thread; 0: its thread is another process's of this session;
 * -WM_E_WATCH_NO_TID with words.
 */
int thread_concerns(const struct wm_session *session, pid_t pid, const struct watch_expr *expr,
		    struct watch_trouble *trouble);

/*
 * Find what watch_place_address() is to add, in the thread `tid` or WATCH_THREAD_MAIN, to a place of WATCH_IN_THREAD or WATCH_IN_BLOCK. Stops the thread for a moment. 0; -WM_E_WATCH_NO_TID,
 * -WM_E_WATCH_NO_BLOCK, -WM_E_WATCH_BLOCKS, -WM_E_TRACED and others, with words.
 */
int thread_find(struct thread_owner *owner, uint64_t *base, pid_t pid,
		const struct watch_place *place, pid_t tid, struct loaded_list *list,
		struct watch_trouble *trouble);

/* Whether it has ended. */
int thread_has_ended(const struct thread_owner *owner, pid_t pid);

#endif
