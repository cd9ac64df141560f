/* SPDX-License-Identifier: MIT */
/*
 * The groups of trials, for trial/ alone. Each function runs in a child process and fills in the
 * rows of its group.
 */
#ifndef TARGET_TRIAL_TRIAL_GROUPS_H
#define TARGET_TRIAL_TRIAL_GROUPS_H

#include "target/trial/trial.h"

typedef void trial_group_fn(struct trial_answer answers[TRIAL_COUNT]);

trial_group_fn trial_group_breakpoint;
trial_group_fn trial_group_breakpoint_cpu;
trial_group_fn trial_group_int80;
trial_group_fn trial_group_tsc;
trial_group_fn trial_group_tsc_trust;
trial_group_fn trial_group_code;
trial_group_fn trial_group_permission_memory;
trial_group_fn trial_group_permission_perf;
trial_group_fn trial_group_permission_trace;
trial_group_fn trial_group_counter;

/* Say what came of a trial. */
void trial_says(struct trial_answer *answer, int works, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* It could not be tried: -errno. */
void trial_unknown(struct trial_answer *answer, int error);

/*
 * Run groups side by side, each in a child of its own, and wait for all. `wanted` has a bit for
 * each row; its groups run whole. Rows whose child said nothing are TRIAL_UNKNOWN. Returns the rows
 * that were tried, a bit each.
 */
uint64_t trial_run(uint64_t wanted, struct trial_answer answers[TRIAL_COUNT]);

/* How often trial_run() was called in this process. */
extern unsigned int trial_rounds;

/* At most `room` of the CPUs that this thread may use, from first to last. How many. */
size_t trial_cpus(int *cpus, size_t room);

/* Move this thread there. 0 or -errno. */
int trial_move(int cpu);

#endif
