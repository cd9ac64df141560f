/* SPDX-License-Identifier: MIT */
/*
 * Finds some thread of a process that can be borrowed (target/process/remote_thread.h), at a moment
 * when it can.
 */
#ifndef TARGET_PROCESS_THREAD_SEARCH_H
#define TARGET_PROCESS_THREAD_SEARCH_H

#include "target/process/remote_thread.h"

#include <sys/types.h>

struct thread_search {
	pid_t pid;
	unsigned int wait_ms;
	/*
	 * on a busy machine few tries fit into that: while fn() wants others, so many, in five
	 * times as long
	 */
	int tries_min;
	/*
	 * What to do with the thread. -EAGAIN: not with this one, or not now. Runs in a thread of
	 * its own.
	 */
	int (*fn)(struct thread_search *search, struct remote_thread *remote);
	void *data;
	int tries;     /* so far: passes over all threads */
	int committed; /* set by fn(): something was done, there is no second try */
	int ended;  /* no thread lived any more; those of a program that is executed may look so */
	int astray; /* a borrowed thread is on its own: the code that it is in must stay */
};

/*
 * Make it. What fn() returned; when it never came to that: -EAGAIN, -ESRCH, -EPERM, -ETIMEDOUT,
 * -EOPNOTSUPP as remote_thread_stop() has them, -EBUSY as remote_thread_place() has it,
 * -WM_E_STOPPED.
 */
int thread_search_run(struct thread_search *search);

/* Is it one of those, with nothing done? */
int thread_search_failed(const struct thread_search *search, int err);

#endif
