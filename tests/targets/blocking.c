/* SPDX-License-Identifier: MIT */
/*
 * A program whose threads block all signals, and leave them to one of them, is watched while it
 * runs: blocking. It says "ready", writes when there is a file "written", and looks at its masks
 * again when there is a file "over". At the end it says "right", or what was wrong.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WORKERS 4
#define WRITES 25
#define WRITERS (WORKERS + 1)

volatile uint64_t written;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile sig_atomic_t seen;
static volatile int is_over;

static void wrong(const char *what)
{
	printf("wrong: %s\n", what);
	fflush(stdout);
	_exit(1);
}

static void wait_for(const char *file)
{
	while (access(file, F_OK))
		usleep(5000);
}

static int is_blocked(void)
{
	sigset_t now;

	pthread_sigmask(SIG_BLOCK, NULL, &now);
	return sigismember(&now, SIGTRAP) && sigismember(&now, SIGUSR2);
}

/* As the kernel has it. */
static int is_really_blocked(void)
{
	uint64_t now = 0;
	long result;

	__asm__ volatile("mov %5, %%r10\n\tsyscall"
			 : "=a"(result)
			 : "0"((long)SYS_rt_sigprocmask), "D"(0L), "S"(NULL), "d"(&now), "r"(8L)
			 : "rcx", "r11", "r10", "memory");
	return !result && now & 1u << (SIGTRAP - 1);
}

/* Says "all" when all have. */
static void write_some(void)
{
	static int have;

	for (int i = 0; i < WRITES; i++) {
		pthread_mutex_lock(&lock);
		written = written + 1;
		pthread_mutex_unlock(&lock);
	}
	pthread_mutex_lock(&lock);
	if (++have == WRITERS) {
		puts("all");
		fflush(stdout);
	}
	pthread_mutex_unlock(&lock);
}

static void *work(void *unused)
{
	wait_for("written");
	if (!is_blocked())
		wrong("a worker's mask");
	write_some();
	if (!is_blocked())
		wrong("a worker's mask, after its writes");
	wait_for("over");
	if (!is_blocked() || !is_really_blocked())
		wrong("a worker's mask, when all is over");
	return unused;
}

/* Sleeps with a mask that is but for its sleep. */
static void *sleep_masked(void *unused)
{
	struct timespec time = { 0, 20000000 };
	sigset_t some;

	sigfillset(&some);
	sigdelset(&some, SIGUSR2);
	while (access("written", F_OK))
		ppoll(NULL, 0, &time, &some);
	write_some();
	if (!is_blocked())
		wrong("a sleeper's mask");
	wait_for("over");
	if (!is_really_blocked())
		wrong("a sleeper's mask, when all is over");
	return unused;
}

/* One for all signals, SIGTRAP too. */
static void *take_signals(void *unused)
{
	sigset_t all;

	sigfillset(&all);
	while (!is_over) {
		int number = sigwaitinfo(&all, NULL);

		if (number < 0 && errno != EINTR)
			wrong("sigwait");
		if (number == SIGUSR1)
			seen++;
	}
	return unused;
}

static void *read_signals(void *unused)
{
	sigset_t some;
	struct signalfd_siginfo info;
	struct pollfd ready = { .events = POLLIN };

	sigemptyset(&some);
	sigaddset(&some, SIGTRAP);
	ready.fd = signalfd(-1, &some, SFD_NONBLOCK);
	while (!is_over)
		if (poll(&ready, 1, 20) > 0 && read(ready.fd, &info, sizeof info) > 0)
			wrong("a SIGTRAP that no code sent");
	return unused;
}

int main(void)
{
	void *(*const bodies[WRITERS])(void *) = { work, work, work, work, sleep_masked };
	pthread_t threads[WRITERS], taker, reader;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	for (int i = 0; i < WRITERS; i++)
		pthread_create(&threads[i], NULL, bodies[i], NULL);
	pthread_create(&taker, NULL, take_signals, NULL);
	pthread_create(&reader, NULL, read_signals, NULL);
	usleep(50000);
	puts("ready");
	fflush(stdout);
	for (int i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	kill(getpid(), SIGUSR1);
	usleep(100000);
	is_over = 1;
	kill(getpid(), SIGUSR1);
	pthread_join(taker, NULL);
	pthread_join(reader, NULL);
	if (seen != 2)
		wrong("signals");
	if (written != WRITERS * WRITES)
		wrong("not as many as were written");
	puts("right");
	return 0;
}
