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

#define AWAIT_S 20
#define AWAIT_POLL_NS 1000000 /* the longest; the first ones are shorter */

struct await {
	long polls;
	time_t end_s; /* of CLOCK_MONOTONIC; valid after the first poll */
};

/* Sleeps before the next poll. Returns 0 instead when the time is over. */
static inline int await_again(struct await *await)
{
	long poll_ns = await->polls++ * 10000;
	struct timespec now,
		left = { .tv_nsec = poll_ns < AWAIT_POLL_NS ? poll_ns : AWAIT_POLL_NS };

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!poll_ns)
		await->end_s = now.tv_sec + AWAIT_S;
	if (now.tv_sec >= await->end_s)
		return 0;
	while (nanosleep(&left, &left) && errno == EINTR)
		;
	return 1;
}

/* A test that ignores the result does not compile. */
static inline __attribute__((warn_unused_result)) int await_result(int holds)
{
	return holds;
}

/* Polls the condition, about once a millisecond, until it holds. Returns 1; 0 after 20 s. */
#define AWAIT(condition)                                                                           \
	await_result(({                                                                            \
		struct await await_state = { 0 };                                                  \
		int await_holds;                                                                   \
                                                                                                   \
		while (!(await_holds = !!(condition)) && await_again(&await_state))                \
			;                                                                          \
		await_holds;                                                                       \
	}))

#endif
