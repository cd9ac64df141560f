/* SPDX-License-Identifier: MIT */
/* Between the files of read/states/thread_states.h. */
#ifndef READ_STATES_THREAD_STATES_OWN_H
#define READ_STATES_THREAD_STATES_OWN_H

#include "read/states/thread_states.h"

/* The thread that an event is about, made if it is new. NULL: no memory. */
struct thread_record *thread_of(struct thread_states *states, const struct thread_event *event);

/* The index of the last thread with that number, and 1; 0: none. */
uint32_t thread_index(const struct thread_states *states, uint32_t tid);

/* It runs: an event that it recorded shows that. */
void thread_be_here(const struct thread_states *states, struct thread_record *thread, uint64_t ns);

/* Time that it was off its CPU, for the place where it departed. 0 or -ENOMEM. */
int thread_place_spend(struct thread_record *thread, uint64_t ns);

static inline void thread_spend(struct thread_record *thread, enum thread_time time, uint64_t ns)
{
	if (ns > thread->since_ns)
		thread->ns[time] += ns - thread->since_ns;
}

static inline void thread_wait_spend(struct thread_record *thread, uint64_t ns)
{
	if (ns > thread->since_ns)
		thread->waits[thread->letter].ns += ns - thread->since_ns;
}

/* No wake comes any more for the wait that ended last. */
static inline void thread_settle(struct thread_record *thread)
{
	thread->ns[THREAD_TIME_WAITING] += thread->pending_ns;
	thread->pending_ns = 0;
}

static inline void thread_enter(struct thread_record *thread, enum thread_state state, uint64_t ns)
{
	thread->state = state;
	thread->since_ns = ns;
}

#endif
