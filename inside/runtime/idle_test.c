/* SPDX-License-Identifier: MIT */
/*
 * Whose signals wake us: another thread's storm is noticed, and our own wake is still found in it.
 */
#include "inside/runtime/idle.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define WAKE SIGUSR2
#define ROUNDS 80 /* of a quarter of a second, at most: 20 s */

static int is_over;

static void nothing(int number)
{
	(void)number;
}

static void *storm(void *unused)
{
	(void)unused;
	while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE))
		raise(SIGURG);
	return NULL;
}

static void block(int number)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, number);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static int open_wake(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, WAKE);
	return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

static uint64_t slept(void)
{
	struct rusage used;

	getrusage(RUSAGE_THREAD, &used);
	return (uint64_t)used.ru_nvcsw;
}

Test(rest, finds_its_wake_among_other_threads_signals, .timeout = 60)
{
	struct sigaction action = { .sa_handler = nothing };
	struct pollfd fds[2] = { { .fd = -1, .events = POLLIN } };
	pthread_t thread;
	uint64_t before;
	int ready = 0;

	sigaction(SIGURG, &action, NULL);
	block(WAKE);
	fds[1] = (struct pollfd){ .fd = open_wake(), .events = POLLIN };
	cr_assert_geq(fds[1].fd, 0);
	cr_assert_eq(idle_poll(fds, 2, 100), 0);
	cr_assert_not(idle_is_disturbed());
	cr_assert_eq(pthread_create(&thread, NULL, storm, NULL), 0);
	for (int i = 0; i < ROUNDS && !idle_is_disturbed(); i++)
		cr_assert_eq(idle_poll(fds, 2, 250), 0);
	cr_assert(idle_is_disturbed());
	cr_assert_eq(idle_poll(fds, 2, 250), 0);
	cr_assert_eq(fds[1].revents, 0);
	before = slept();
	cr_assert_eq(idle_poll(fds, 2, 250), 0);
	cr_assert_gt(slept(), before);

	idle_wake();
	before = slept();
	cr_assert_eq(idle_poll(fds, 2, 250), 0);
	cr_assert_eq(slept(), before, "what was asked ends the rest");
	pthread_kill(pthread_self(), WAKE);
	for (int i = 0; i < ROUNDS && !ready; i++)
		ready = idle_poll(fds, 2, 250);
	cr_assert_eq(ready, 1);
	cr_assert_eq(fds[1].revents, POLLIN);
	__atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	close(fds[1].fd);
}

/* poll(2) refuses more descriptors than a process may have open now: then each may be ready. */
Test(rest, takes_each_for_ready_where_poll_refuses, .timeout = 60)
{
	struct rlimit none = { 0 };
	struct pollfd fds[3] = { { .fd = -1, .events = POLLIN }, { .events = POLLIN } };
	int pipes[2];

	cr_assert_eq(pipe(pipes), 0);
	fds[1].fd = pipes[0];
	fds[2] = (struct pollfd){ .fd = pipes[0], .events = POLLIN };
	cr_assert_eq(idle_poll(fds, 3, 1), 0);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &none), 0);
	none.rlim_cur = 0;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	cr_assert_eq(idle_poll(fds, 3, 10000), 2);
	cr_assert_eq(fds[0].revents, 0);
	cr_assert_eq(fds[1].revents, POLLIN);
	cr_assert_eq(fds[2].revents, POLLIN);
	none.rlim_cur = none.rlim_max;
	setrlimit(RLIMIT_NOFILE, &none);
}
