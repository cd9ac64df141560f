/* SPDX-License-Identifier: MIT */
#include "agent/control/lock.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>

static struct lock lock;
static pthread_barrier_t taken, cancelled;
static int went_on;

static void *hold(void *unused)
{
	(void)unused;
	cr_assert_eq(lock_take(&lock, 0), 0);
	pthread_barrier_wait(&taken);
	pthread_barrier_wait(&cancelled);
	pthread_testcancel();
	went_on = 1;
	lock_release(&lock);
	pthread_testcancel();
	went_on = 2;
	return NULL;
}

Test(lock, a_thread_that_is_cancelled_does_not_take_it_along)
{
	pthread_t thread;
	void *result;

	pthread_barrier_init(&taken, NULL, 2);
	pthread_barrier_init(&cancelled, NULL, 2);
	cr_assert_eq(pthread_create(&thread, NULL, hold, NULL), 0);
	pthread_barrier_wait(&taken);
	cr_assert_eq(lock_take(&lock, 0), -EBUSY);
	pthread_cancel(thread);
	pthread_barrier_wait(&cancelled);
	pthread_join(thread, &result);
	cr_assert_eq(went_on, 1);
	cr_assert_eq(result, PTHREAD_CANCELED);
	cr_assert_eq(lock_take(&lock, 0), 0);
	cr_assert_eq(lock_take(&lock, 0), -EDEADLK);
	lock_release(&lock);
}

Test(lock, the_child_of_a_fork_finds_it_free_and_can_be_cancelled)
{
	int state;

	cr_assert_eq(lock_take(&lock, 0), 0);
	lock_forked(&lock, 1);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
	cr_assert_eq(state, PTHREAD_CANCEL_ENABLE);
	cr_assert_eq(lock_take(&lock, 0), 0);
	lock_release(&lock);
}
