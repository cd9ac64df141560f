/* SPDX-License-Identifier: MIT */
/*
 * A recorded process is stopped, for example by SIGSTOP, and another recorded process is about to
 * trace it (soft_traced.h). It has to leave the engine first, but none of its threads
 * runs. The tool traces all its threads for a moment, lets each run out of the engine, and detaches
 * before the thread's first native instruction. There the kernel stops the thread again. The
 * process's group stop lasts throughout, so its parent gets no further report.
 *
 * A thread of the tool does that and ends. The kernel then detaches what is still traced, whatever
 * failed; it does the same when the tool is killed. A thread that is still in the engine stops
 * where it is, and leaves the engine once the process continues.
 */
#ifndef RECORD_TRAIL_SOFT_SOFT_STOPPED_H
#define RECORD_TRAIL_SOFT_SOFT_STOPPED_H

#include "record/trail/soft/soft_channel.h"

#include <sys/types.h>

/*
 * Do it if the process is stopped. 1: it was tried, or refused; 0: it was neither. `late_ns` is
 * what all that failed have taken, from 0 on. A hostile program can have any number fail, so from
 * three seconds on all are refused.
 */
int soft_stopped_lead(const struct soft_channel *channel, pid_t pid, uint64_t *late_ns);

/* Whether this signal stops a process. */
int soft_stopped_is_by(int signal);

#endif
