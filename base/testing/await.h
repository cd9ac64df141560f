/* SPDX-License-Identifier: MIT */
/*
 * Tests wait for an event, and not for a time in which the event should have happened:
 *
 *	cr_assert(AWAIT(thread_state(tid) == 'S'));
 *
 * A nap is right only where time itself is the subject: a test's comment says so.
 */
#ifndef BASE_TESTING_AWAIT_H
#define BASE_TESTING_AWAIT_H

#include <errno.h>
#include <time.h>

#define AWAIT_POLLS 15000
#define AWAIT_NAP_NS 1000000 /* the longest; the first ones are shorter */

/* Sleeps before the next poll. Returns 0 once all polls are used up. */
static inline int await_again(unsigned int *polls)
{
	long nap_ns = *polls * 10000L;
	struct timespec left = { .tv_nsec = nap_ns < AWAIT_NAP_NS ? nap_ns : AWAIT_NAP_NS };

	/* a storm of signals must not use up the polls */
	while (nanosleep(&left, &left) && errno == EINTR)
		;
	return ++*polls <= AWAIT_POLLS;
}

/* A test that ignores the result does not compile. */
static inline __attribute__((warn_unused_result)) int await_result(int holds)
{
	return holds;
}

/* Polls the condition, at least once a millisecond, until it holds. Returns 1; 0 after about 20 s. */
#define AWAIT(condition)                                                                           \
	await_result(({                                                                            \
		unsigned int await_polls = 0;                                                      \
		int await_holds;                                                                   \
                                                                                                   \
		while (!(await_holds = !!(condition)) && await_again(&await_polls))                \
			;                                                                          \
		await_holds;                                                                       \
	}))

#endif
