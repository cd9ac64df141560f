/* SPDX-License-Identifier: MIT */
/*
 * One recorded process traces another (ptrace(2)). A tracer would see the engine's faults, and
 * might suppress them: so the tracee leaves the engine first. Processes share no memory, so the
 * tool relays. The tracer's engine asks the tool in its channel, before the call. The tool asks the
 * tracee by its channel and a signal, and answers the tracer once the tracee is out.
 */
#ifndef RECORD_TRAIL_SOFT_SOFT_TRACED_H
#define RECORD_TRAIL_SOFT_SOFT_TRACED_H

#include "record/trail/soft/soft_follow.h"

/* Whether it asks, and what is next for it. 1: there was something; 0: nothing, or nothing yet. */
int soft_traced_look(struct soft_follow *follow, struct soft_process *tracer);

/*
 * Have all threads of a process leave the engine, if it is stopped. 1: it was tried, or refused; 0:
 * it was neither. `late_ns` is what all that failed have taken, from 0 on. A hostile program can
 * have any number fail, so from three seconds on all are refused.
 */
int soft_traced_lead(const struct soft_channel *channel, pid_t pid, uint64_t *late_ns);

/* Whether this signal stops a process. */
int soft_traced_stops(int signal);

#endif
