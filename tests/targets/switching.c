/* SPDX-License-Identifier: MIT */
/*
 * A program whose switches and faults are known: switching SLEEPS PAGES. A thread named "sleeper"
 * sleeps SLEEPS times. A thread named "waiter" waits on a condition as often, and the main thread
 * wakes it. When standard input ends, the main thread touches PAGES new pages at the address that
 * it prints, and prints "tids SLEEPER WAITER", and "switches WAITED PREEMPTED" of the sleeper.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096

static int rounds;
static long sleeper_tid, waiter_tid;
static struct rusage usage; /* the sleeper's */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static int turn, is_waiting;

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

static void *sleeper(void *unused)
{
	sleeper_tid = syscall(SYS_gettid);
	pthread_setname_np(pthread_self(), "sleeper");
	for (int i = 0; i < rounds; i++)
		pause_ms(2);
	getrusage(RUSAGE_THREAD, &usage);
	return unused;
}

static void *waiter(void *unused)
{
	waiter_tid = syscall(SYS_gettid);
	pthread_setname_np(pthread_self(), "waiter");
	pthread_mutex_lock(&lock);
	for (int i = 0; i < rounds; i++) {
		is_waiting = 1;
		while (turn <= i)
			pthread_cond_wait(&turned, &lock);
	}
	pthread_mutex_unlock(&lock);
	return unused;
}

/* Wake the waiter when it waits, so that it has slept each time. */
static void wake(void)
{
	for (int is_done = 0; !is_done;) {
		pause_ms(2);
		pthread_mutex_lock(&lock);
		is_done = is_waiting;
		if (is_done) {
			is_waiting = 0;
			turn++;
			pthread_cond_signal(&turned);
		}
		pthread_mutex_unlock(&lock);
	}
}

int main(int argc, char **argv)
{
	pthread_t threads[2];
	size_t pages = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	volatile char *at;
	char byte;

	rounds = argc > 1 ? atoi(argv[1]) : 1;
	if (pthread_create(&threads[0], NULL, sleeper, NULL) ||
	    pthread_create(&threads[1], NULL, waiter, NULL))
		return 3;
	for (int i = 0; i < rounds; i++)
		wake();
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	at = mmap(NULL, (pages + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		  0);
	if (at == MAP_FAILED || madvise((void *)(size_t)at, (pages + 1) * PAGE, MADV_NOHUGEPAGE))
		return 3;
	printf("pages %p\n", (void *)(size_t)at);
	for (size_t i = 0; i < pages; i++)
		at[i * PAGE] = 1;
	printf("tids %ld %ld\n", sleeper_tid, waiter_tid);
	printf("switches %ld %ld\n", usage.ru_nvcsw, usage.ru_nivcsw);
	return 0;
}
