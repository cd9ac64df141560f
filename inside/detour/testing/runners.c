/* SPDX-License-Identifier: MIT */
#include "inside/detour/testing/fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>

static struct {
	pthread_t thread[TRIAL_RUNNERS_MAX];
	int count, is_over;
	uint64_t calls, wrong;
} runners;

static void *run(void *data)
{
	long (*function)(long) = (long (*)(long))data;

	while (!__atomic_load_n(&runners.is_over, __ATOMIC_RELAXED)) {
		for (long i = 0; i < 100; i++)
			if (function(i) != i + 1)
				__atomic_add_fetch(&runners.wrong, 1, __ATOMIC_RELAXED);
		__atomic_add_fetch(&runners.calls, 100, __ATOMIC_RELAXED);
	}
	return NULL;
}

void trial_runners_start(long (*function)(long), int count)
{
	cr_assert_leq(count, TRIAL_RUNNERS_MAX);
	for (; runners.count < count; runners.count++)
		cr_assert_eq(pthread_create(&runners.thread[runners.count], NULL, run,
					    (void *)function),
			     0);
}

uint64_t trial_runners_calls(void)
{
	return __atomic_load_n(&runners.calls, __ATOMIC_RELAXED);
}

void trial_runners_end(void)
{
	__atomic_store_n(&runners.is_over, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < runners.count; i++)
		cr_assert_eq(pthread_join(runners.thread[i], NULL), 0);
	cr_assert_eq(runners.wrong, 0);
}
