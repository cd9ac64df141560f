/* SPDX-License-Identifier: MIT */
/*
 * summed WAY: calls take() in a way that is hard to add up, and prints how often.
 *
 *	keys	 1,200,000 times, each with another number
 *	texts	 with texts of 4 KiB that differ at the front, behind 100 bytes, or have no end that
 *		 can be read
 *	deep	 from a stack of 10,000 frames
 *	handlers with a timer's handler that calls it too, in between
 *	forks	 with a timer's handler that forks and returns, in both processes: the child
 *		 continues where the signal came, and calls it 100 times more
 *	threads	 in 3,000 threads, one after the other, and 100 that live on
 *	wait	 a thousand times; then it says "ready", waits for a byte to read, and calls it again
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEYS 1200000
#define THREADS 3000
#define LASTING 100
#define HANDLED 2000
#define FORKS 100

static volatile long handled, calls;
static pthread_barrier_t all;

__attribute__((noinline, noclone)) void take(long number, const char *text)
{
	__asm__ volatile("" : : "r"(number), "r"(text) : "memory");
}

static void texts(void)
{
	static char one[4097], other[4097], third[4097];
	char *end = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(one, 'x', 4096);
	memset(other, 'x', 4096);
	memset(third, 'x', 4096);
	other[100] = 'y'; /* behind what counts */
	third[10] = 'y';
	munmap(end + 4096, 4096);
	memset(end + 4086, 'z', 10);
	for (int i = 0; i < 100; i++) {
		take(i, one);
		take(i, other);
		take(i, third);
		take(i, end + 4086);
		take(i, NULL);
	}
	calls = 500;
}

__attribute__((noinline, noclone)) static int deep(int frames)
{
	volatile int left = frames;

	if (left)
		return deep(left - 1) + left;
	for (int i = 0; i < 100; i++)
		take(i, NULL);
	calls = 100;
	return left;
}

static void on_alarm(int signal)
{
	(void)signal;
	take(1, NULL);
	handled++;
}

static void *some(void *data)
{
	take((long)data, NULL);
	take((long)data, NULL);
	if (data)
		pthread_barrier_wait(&all);
	return NULL;
}

static void threads(void)
{
	pthread_t thread, lasting[LASTING];

	pthread_barrier_init(&all, NULL, LASTING + 1);
	for (int i = 0; i < THREADS; i++) {
		pthread_create(&thread, NULL, some, NULL);
		pthread_join(thread, NULL);
	}
	for (int i = 0; i < LASTING; i++)
		pthread_create(&lasting[i], NULL, some, (void *)1);
	pthread_barrier_wait(&all);
	for (int i = 0; i < LASTING; i++)
		pthread_join(lasting[i], NULL);
	calls = 2 * (THREADS + LASTING);
}

static void handlers(void)
{
	struct itimerval often = { { 0, 200 }, { 0, 200 } }, never = { { 0, 0 }, { 0, 0 } };

	signal(SIGALRM, on_alarm);
	take(0, NULL); /* a thread's first hit makes its writer: a handler's within that is lost */
	calls = 1;
	setitimer(ITIMER_REAL, &often, NULL);
	while (handled < HANDLED) {
		take(calls & 1, NULL);
		calls++;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	calls += handled;
}

static volatile long forked, is_child;

static void on_fork(int signal)
{
	pid_t pid = fork();

	(void)signal;
	is_child |= !pid;
	forked += pid > 0;
}

static void forks(void)
{
	struct itimerval soon = { .it_value.tv_usec = 50 };
	int status, failed = 0;

	signal(SIGALRM, on_fork);
	while (forked < FORKS && !is_child) {
		long before = forked;

		/* once: the next one would come before the handler's return */
		setitimer(ITIMER_REAL, &soon, NULL);
		/* more numbers than a page has rows for: each call makes one */
		for (; forked == before && !is_child; calls++)
			take(calls & 1023, NULL);
	}
	if (is_child) {
		for (int i = 0; i < 100; i++)
			take(calls++ & 1023, NULL);
		_exit(0);
	}
	while (wait(&status) > 0)
		failed += status != 0;
	calls += 100 * forked;
	printf("failed %d\n", failed);
}

int main(int count, char **arguments)
{
	const char *way = count > 1 ? arguments[1] : "";

	if (!strcmp(way, "keys"))
		for (; calls < KEYS; calls++)
			take(calls, NULL);
	if (!strcmp(way, "texts"))
		texts();
	if (!strcmp(way, "deep"))
		deep(10000);
	if (!strcmp(way, "handlers"))
		handlers();
	if (!strcmp(way, "forks"))
		forks();
	if (!strcmp(way, "threads"))
		threads();
	if (!strcmp(way, "wait")) {
		for (; calls < 1000; calls++)
			take(calls & 3, NULL);
		puts("ready");
		fflush(stdout);
		getchar();
		take(0, NULL);
		puts("went on");
		return 0;
	}
	printf("calls %ld\n", calls);
	return 0;
}
