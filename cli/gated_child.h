/* SPDX-License-Identifier: MIT */
/*
 * A program that is started and waits before it executes, so that what is to follow it can begin.
 */
#ifndef CLI_GATED_CHILD_H
#define CLI_GATED_CHILD_H

#include "cli/child.h"

struct gated_child {
	struct child child;
	int go, failed; /* pipes: a byte lets it execute; the errno of a failed execve(2) */
	int pidfd;	/* readable at its end; -1: the kernel has none */
};

#define GATED_CHILD_NONE                                                                           \
	{                                                                                          \
		.go = -1, .failed = -1, .pidfd = -1                                                \
	}

/* Fork; the child waits. argv as for execvp(3). 0 or -errno. */
int gated_child_start(struct gated_child *gated, char **argv);

/* Let it execute. 0, or the -errno of execve(2). */
int gated_child_go(struct gated_child *gated);

/* Wait for its end (child_wait()); one that was not let go ends without executing. */
void gated_child_end(struct gated_child *gated);

#endif
