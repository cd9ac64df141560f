/* SPDX-License-Identifier: MIT */
/*
 * The oracle of trails: a process's threads run one instruction at a time under ptrace(2), and each
 * is written down. Slow (tens of microseconds an instruction) and exact: what the product's origins
 * are tested against.
 *
 * In a program that links this, `auto` takes it as the origin `step` (tracing_oracle of tracing.h).
 *
 * The process needs none of our code; where it has an agent, that one's threads are left alone. All
 * calls come from one thread, which is its tracer: should that end, the kernel lets the process go,
 * perhaps with the trap flag set, and SIGTRAP ends it.
 *
 * Processes that it makes are left alone, or, where the sink takes children (sink.h), are stepped
 * through from their first instruction on, and those that they make: STEP_PROCESSES_MAX at a time.
 * One more is let go, and its trail says so.
 */
#ifndef RECORD_TRAIL_TESTING_STEP_STEP_H
#define RECORD_TRAIL_TESTING_STEP_STEP_H

#include "record/trail/sink.h"
#include "record/trail/tracing.h"

#include <stdint.h>
#include <sys/types.h>

#define STEP_PROCESSES_MAX 256u

struct step;

/*
 * Take a running process's threads; the trail goes to `sink`, which is the caller's, fresh, and
 * must live longer. 0, or -errno: -EPERM where the process may not be traced. *step is NULL then,
 * and else released with step_close(). `only`: of all its threads this one; 0: all.
 */
int step_attach(struct step **step, struct trail_sink *sink, pid_t pid, pid_t only);

/*
 * The same for a program that is another process's child: that process forks one that calls
 * gate_become() (launch_gate.h) with one end of a socket pair (SOCK_STREAM), and does not return;
 * the other end is `gate`. We do not close it here.
 */
int step_take(struct step **step, struct trail_sink *sink, pid_t pid, int gate);

/*
 * Let it run, for about that long at most. 1 while it or a child lives, 0 when all are over, or a
 * negative error.
 */
int step_run(struct step *step, unsigned int for_ms);

void step_result(const struct step *step, struct tracing_result *result);

/*
 * Detach from the process, and write what is left. Returns how many threads could not be stopped
 * for that within the time: they sleep where no signal wakes them, as vfork(2) does. If their
 * tracer ends before a later call has detached them, SIGTRAP ends them. Nothing more is written of
 * them.
 */
int step_let_go(struct step *step, unsigned int for_ms);

/* As that, for two seconds, and release. An error is of the writing. NULL is allowed. */
int step_close(struct step *step);

#endif
