/* SPDX-License-Identifier: MIT */
/*
 * Finds some thread of a process that can be borrowed (target/process/borrow.h), at a moment when
 * it can.
 */
#ifndef TARGET_PROCESS_LOAN_H
#define TARGET_PROCESS_LOAN_H

#include "target/process/borrow.h"

#include <sys/types.h>

struct loan {
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
	int (*fn)(struct loan *loan, struct borrow *borrow);
	void *data;
	int tries;     /* so far: passes over all threads */
	int committed; /* set by fn(): something was done, there is no second try */
	int ended;  /* no thread lived any more; those of a program that is executed may look so */
	int astray; /* a borrowed thread is on its own: the code that it is in must stay */
};

/*
 * Make it. What fn() returned; when it never came to that: -EAGAIN, -ESRCH, -EPERM, -ETIMEDOUT,
 * -EOPNOTSUPP as borrow_stop() has them, -EBUSY as borrow_place() has it, -WM_E_STOPPED.
 */
int loan_make(struct loan *loan);

/* Is it one of those, with nothing done? */
int loan_failed(const struct loan *loan, int err);

#endif
