/* SPDX-License-Identifier: MIT */
/*
 * A program that is started and waits before it executes, so that what is to follow it can begin.
 */
#ifndef CLI_HELD_CHILD_H
#define CLI_HELD_CHILD_H

#include "cli/child.h"

struct held_child {
	struct child child;
	int go, failed; /* pipes: a byte lets it execute; the errno of a failed execve(2) */
	int pidfd;	/* readable at its end; -1: the kernel has none */
};

#define HELD_CHILD_NONE                                                                            \
	{                                                                                          \
		.go = -1, .failed = -1, .pidfd = -1                                                \
	}

/* Fork; the child waits. argv as for execvp(3). 0 or -errno. */
int held_child_start(struct held_child *held, char **argv);

/* Let it execute. 0, or the -errno of execve(2). */
int held_child_go(struct held_child *held);

/* Wait for its end (child_wait()); one that was not let go ends without executing. */
void held_child_end(struct held_child *held);

#endif
