/* SPDX-License-Identifier: MIT */
#include "inside/runtime/lock.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>

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

static volatile sig_atomic_t handled;
static sigjmp_buf way_out;

static void leave_handler(int number)
{
	(void)number;
	handled++;
	if (lock_is_mine(&lock))
		siglongjmp(way_out, 1);
}

Test(lock, a_handler_that_jumps_away_finds_it_free)
{
	signal(SIGUSR1, leave_handler);
	if (sigsetjmp(way_out, 1))
		cr_assert_fail("it was left while it was held");
	cr_assert_eq(lock_take(&lock, 0), 0);
	raise(SIGUSR1);
	cr_assert_eq(handled, 0);
	lock_release(&lock);
	cr_assert_eq(handled, 1);
	cr_assert_eq(lock_take(&lock, 0), 0);
	lock_release(&lock);
}

static void on_fault(int number)
{
	handled = number;
	siglongjmp(way_out, 1);
}

Test(lock, what_an_instruction_raises_is_not_held_off)
{
	static int *volatile nowhere = (int *)8; /* UBSan forbids a store at NULL */

	signal(SIGSEGV, on_fault);
	cr_assert_eq(lock_take(&lock, 0), 0);
	if (!sigsetjmp(way_out, 1))
		*nowhere = 1;
	cr_assert_eq(handled, SIGSEGV);
	lock_release(&lock);
}

static void mask_is(int number, int blocked)
{
	sigset_t now;

	cr_assert_eq(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	cr_assert_eq(sigismember(&now, number), blocked, "signal %d", number);
}

/* As handlers of pthread_atfork() may, and programs that hold signals off anyway. */
Test(lock, the_signal_mask_is_as_the_program_has_it)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	cr_assert_eq(lock_take(&lock, 0), 0);
	mask_is(SIGTERM, 1);
	sigdelset(&set, SIGUSR2);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	lock_release(&lock);
	mask_is(SIGTERM, 0);
	mask_is(SIGUSR1, 0);
	mask_is(SIGUSR2, 1);
	mask_is(SIGSEGV, 1);
}

/* Its creator has the lock, and so holds signals off, which is inherited. */
static void *try_in_vain(void *unused)
{
	sigset_t none;

	(void)unused;
	sigemptyset(&none);
	pthread_sigmask(SIG_SETMASK, &none, NULL);
	cr_assert_eq(lock_take(&lock, 0), -EBUSY);
	mask_is(SIGUSR1, 0);
	cr_assert_eq(lock_take(&lock, 20), -EBUSY);
	mask_is(SIGUSR1, 0);
	return NULL;
}

Test(lock, who_does_not_get_it_takes_signals)
{
	pthread_t thread;

	cr_assert_eq(lock_take(&lock, 0), 0);
	cr_assert_eq(pthread_create(&thread, NULL, try_in_vain, NULL), 0);
	pthread_join(thread, NULL);
	lock_release(&lock);
}

static void *wait_in_vain(void *slept)
{
	struct rusage before, after;

	getrusage(RUSAGE_THREAD, &before);
	cr_assert_eq(lock_take(&lock, 600), -EBUSY); /* the length is the subject */
	getrusage(RUSAGE_THREAD, &after);
	*(long *)slept = after.ru_nvcsw - before.ru_nvcsw;
	return NULL;
}

/* A tool takes one that sleeps for a second for hung, so who waits long wakes up in between. */
Test(lock, waiter_never_sleeps_for_long)
{
	long slept = 0;
	pthread_t thread;

	cr_assert_eq(lock_take(&lock, 0), 0);
	cr_assert_eq(pthread_create(&thread, NULL, wait_in_vain, &slept), 0);
	pthread_join(thread, NULL);
	cr_assert_geq(slept, 2);
	lock_release(&lock);
}
