/* SPDX-License-Identifier: MIT */
/* The sums of threads' times: in between, and at the end. */
#include "read/states/thread_states_own.h"

#include <errno.h>
#include <string.h>

int thread_states_times(struct thread_states *states, uint32_t pid, uint32_t tid, uint64_t ns,
			uint64_t times[THREAD_TIMES])
{
	static const enum thread_time open[] = {
		[THREAD_UNSEEN] = THREAD_TIME_UNKNOWN,	[THREAD_UNKNOWN] = THREAD_TIME_UNKNOWN,
		[THREAD_RUNNING] = THREAD_TIME_RUNNING, [THREAD_RUNNABLE] = THREAD_TIME_RUNNABLE,
		[THREAD_ASLEEP] = THREAD_TIME_ASLEEP,	[THREAD_ENDED] = THREAD_TIME_UNKNOWN,
	};
	const struct thread_event event = {
		.kind = THREAD_IS_HERE, .ns = ns, .pid = pid, .tid = tid, .cpu = -1
	};
	struct thread_record *thread = tid ? thread_of(states, &event) : NULL;

	memset(times, 0, THREAD_TIMES * sizeof(*times));
	if (!thread)
		return tid ? -ENOMEM : 0;
	thread->is_recorded = 1;
	thread_be_here(states, thread, ns);
	thread_settle(thread);
	memcpy(times, thread->ns, sizeof(thread->ns));
	if (ns > thread->since_ns)
		times[open[thread->state]] += ns - thread->since_ns;
	return 0;
}

/* Divide the waits between the first and the last of the kernel's sums. */
static void delay_divide(struct thread_record *thread)
{
	const struct thread_delay *first = &thread->delay_first, *last = &thread->delay_last;
	uint64_t waiting_ns = last->waiting_ns - first->waiting_ns;
	uint64_t preempted_ns = last->runnable_ns - first->runnable_ns;
	uint64_t runnable_ns = last->ns > first->ns ? last->ns - first->ns : 0;

	/* the kernel counts the time after a wake and that after a preemption together */
	runnable_ns = runnable_ns > preempted_ns ? runnable_ns - preempted_ns : 0;
	runnable_ns = runnable_ns < waiting_ns ? runnable_ns : waiting_ns;
	thread->ns[THREAD_TIME_WAITING] -= waiting_ns;
	thread->ns[THREAD_TIME_RUNNABLE] += runnable_ns;
	thread->ns[THREAD_TIME_ASLEEP] += waiting_ns - runnable_ns;
}

/*
 * A wait that has no end. Where neither wakes, states nor exits are recorded, it may have been the
 * thread's end: only a later sum of the kernel's shows that it lived.
 */
static void wait_close(const struct thread_states *states, struct thread_record *thread,
		       uint64_t end_ns)
{
	int is_known = THREAD_LETTERS[thread->letter] != '?' || states->wakes ||
		       states->has_tasks || thread->delay_last.at_ns > thread->since_ns;

	if (thread->is_woken_early) {
		thread_spend(thread, THREAD_TIME_RUNNABLE, end_ns);
		return;
	}
	if (!is_known) {
		thread->end_ns = thread->since_ns;
		return;
	}
	thread_wait_spend(thread, end_ns);
	thread_spend(thread, states->wakes ? THREAD_TIME_ASLEEP : THREAD_TIME_WAITING, end_ns);
}

static void thread_finish(const struct thread_states *states, struct thread_record *thread,
			  uint64_t end_ns)
{
	thread_settle(thread);
	thread->end_ns = end_ns;
	switch (thread->state) {
	case THREAD_UNSEEN:
	case THREAD_UNKNOWN:
		thread_spend(thread, THREAD_TIME_UNKNOWN, end_ns);
		break;
	case THREAD_RUNNING:
		if (thread->is_exiting)
			thread->end_ns = thread->since_ns;
		else
			thread_spend(thread, THREAD_TIME_RUNNING, end_ns);
		break;
	case THREAD_RUNNABLE:
		thread_spend(thread, THREAD_TIME_RUNNABLE, end_ns);
		break;
	case THREAD_ASLEEP:
		wait_close(states, thread, end_ns);
		break;
	case THREAD_ENDED:
		thread->end_ns = thread->since_ns;
		break;
	}
}

int thread_states_finish(struct thread_states *states, uint64_t end_ns)
{
	int err = 0;

	for (size_t i = 0; i < states->count; i++) {
		struct thread_record *thread = &states->threads[i];
		uint64_t lived_ns;

		thread_finish(states, thread, end_ns);
		if (!err && (thread->state == THREAD_ASLEEP || thread->state == THREAD_RUNNABLE))
			err = thread_place_spend(thread, thread->end_ns);
		if (thread->delay_first.is_known)
			delay_divide(thread);
		thread->lost_events = states->lost_events - thread->lost_events;
		thread->lost_ns = states->lost_ns - thread->lost_ns;
		lived_ns = thread->end_ns > thread->begin_ns ? thread->end_ns - thread->begin_ns
							     : 0;
		thread->lost_ns = thread->lost_ns < lived_ns ? thread->lost_ns : lived_ns;
		frequent_sort(&thread->wakers);
		frequent_sort(&thread->places);
		for (size_t as = 0; as <= THREAD_LETTER_COUNT; as++)
			frequent_sort(&thread->off[as]);
	}
	return err;
}
