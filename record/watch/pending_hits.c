/* SPDX-License-Identifier: MIT */
#include "record/watch/pending_hits.h"

#include "target/process/target.h"
#include "target/process/ticks.h"

#include <stdlib.h>
#include <unistd.h>

#define POLL_US 500
#define SURE_NS UINT64_C(20000000)  /* without load, hits arrive long before that */
#define MAX_NS UINT64_C(2000000000) /* even if threads were not scheduled in that time */
#define RAN_NS UINT64_C(2000000)    /* enough for a handler, also if it is interrupted */

struct runner {
	pid_t tid;
	uint64_t ran_ns;
};

struct runners {
	struct runner *all;
	size_t count;
};

/*
 * The CPU time of a thread that runs or waits for a CPU; -1: it does neither, or that is unknown.
 */
static int64_t ran_ns(pid_t pid, pid_t tid)
{
	struct target_times times;

	if (target_thread_state(pid, tid) != 'R' || target_thread_times(pid, tid, &times))
		return -1;
	return (int64_t)times.ran_ns;
}

static void runners_find(struct runners *runners, pid_t pid)
{
	pid_t *tids = NULL;
	int count = target_threads(pid, &tids);

	*runners = (struct runners){ .all = count > 0 ? calloc((size_t)count, sizeof(*runners->all))
						      : NULL };
	for (int i = 0; i < count && runners->all; i++) {
		int64_t ran = ran_ns(pid, tids[i]);

		if (ran >= 0)
			runners->all[runners->count++] = (struct runner){ tids[i], (uint64_t)ran };
	}
	if (count >= 0)
		free(tids);
}

/* Drop threads that have run since or no longer need to. Returns whether any are left. */
static int runners_left(struct runners *runners, pid_t pid)
{
	size_t left = 0;

	for (size_t i = 0; i < runners->count; i++) {
		int64_t ran = ran_ns(pid, runners->all[i].tid);

		if (ran >= 0 && (uint64_t)ran < runners->all[i].ran_ns + RAN_NS)
			runners->all[left++] = runners->all[i];
	}
	runners->count = left;
	return left > 0;
}

void pending_hits_wait(const struct process *process, int (*is_told)(void *data), void *data)
{
	uint64_t began_ns = ticks_monotonic_ns(), waited_ns = 0;
	struct runners runners = { 0 };
	int has_looked = 0;

	while (!is_told(data) && !process_is_dead(process) && waited_ns < MAX_NS) {
		if (waited_ns >= SURE_NS && !has_looked) {
			runners_find(&runners, process->pid);
			has_looked = 1;
		}
		if (has_looked && !runners_left(&runners, process->pid))
			break;
		usleep(POLL_US);
		waited_ns = ticks_monotonic_ns() - began_ns;
	}
	free(runners.all);
}
