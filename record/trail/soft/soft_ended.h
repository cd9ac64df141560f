/* SPDX-License-Identifier: MIT */
/* The end of a process that is not our child. */
#ifndef RECORD_TRAIL_SOFT_SOFT_ENDED_H
#define RECORD_TRAIL_SOFT_SOFT_ENDED_H

#include <sys/types.h>

/* A descriptor of a process that lives: pidfd_open(2). Or -errno. */
int ended_open(pid_t pid);
void ended_close(int fd);

/* Whether all its threads have ended. */
int ended_is(int fd);

/*
 * How it ended, as wait(2) has it: known until it is waited for, and with Linux 6.15 and later also
 * afterwards. 0 and *status, or -ENODATA.
 */
int ended_status(int fd, pid_t pid, int *status);

/*
 * The process has ended. If the calling thread traces it, the kernel keeps its end from its parent
 * until the tracer has waited for it: do that. A child of our own is left to who waits for it.
 */
void ended_release(int fd, pid_t pid);

#endif
