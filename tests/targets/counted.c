/* SPDX-License-Identifier: MIT */
/*
 * A program whose page faults are known: counted THREADS PAGES. THREADS threads wait. When standard
 * input ends, each touches PAGES new pages, and so does a thread that each of them starts, and a
 * child that is forked. So that is (2 * THREADS + 1) * PAGES faults, and a few of its own.
 *
 * counted 0 PAGES: until standard input ends, threads touch PAGES pages, start another, and end.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define THREADS_MAX 64
#define RELAYS 4

static size_t pages;
static pthread_barrier_t begin;
static int is_over, relay_count;

static void touch(void)
{
	volatile char *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED || madvise((void *)(uintptr_t)at, pages * PAGE, MADV_NOHUGEPAGE))
		_exit(3);
	for (size_t i = 0; i < pages; i++)
		at[i * PAGE] = 1;
	munmap((void *)(uintptr_t)at, pages * PAGE);
}

static void *later(void *unused)
{
	touch();
	return unused;
}

static void *waits(void *unused)
{
	pthread_t thread;

	pthread_barrier_wait(&begin);
	touch();
	if (pthread_create(&thread, NULL, later, NULL))
		_exit(3);
	pthread_join(thread, NULL);
	return unused;
}

/* Starts the next, and ends. */
static void *relays(void *unused)
{
	pthread_attr_t detached;
	pthread_t next;

	touch();
	if (__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) {
		__atomic_sub_fetch(&relay_count, 1, __ATOMIC_RELEASE);
		return unused;
	}
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&next, &detached, relays, NULL))
		_exit(3);
	return unused;
}

static int relay(void)
{
	char byte;

	relay_count = RELAYS;
	for (int i = 0; i < RELAYS; i++)
		relays(NULL);
	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	__atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&relay_count, __ATOMIC_ACQUIRE))
		usleep(1000);
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS_MAX];
	unsigned int count = argc > 2 ? (unsigned int)atoi(argv[1]) : 0;
	char byte;
	pid_t child;

	if (argc <= 2 || count > THREADS_MAX)
		return 2;
	pages = (size_t)atoi(argv[2]);
	if (!count)
		return relay();
	pthread_barrier_init(&begin, NULL, count + 1);
	for (unsigned int i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, waits, NULL))
			return 3;
	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	pthread_barrier_wait(&begin);
	for (unsigned int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	child = fork();
	if (!child) {
		touch();
		_exit(0);
	}
	return waitpid(child, NULL, 0) == child ? 0 : 3;
}
