/* SPDX-License-Identifier: MIT */
/*
 * filtered WAY [LIBRARY]: eight threads pass markers and call a function, with values that depend
 * on nothing but the thread and the round. Then, by WAY:
 *
 *	plain	 the program ends
 *	fork	 a child does the same, as threads 8 to 15
 *	late	 LIBRARY is loaded, its marker passed by each thread, and the function called there
 *	kill	 SIGKILL ends the program
 *	wait	 as plain, but first it says "ready", and waits for a byte to read
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/marker.h>

#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#define PASS(thread, round, text) DTRACE_PROBE3(filtered, pass, thread, round, text)
#else
#define PASS(thread, round, text)
#endif

#define THREADS 8
#define ROUNDS 2000
#define KEEP __attribute__((noinline, noclone))

enum colour { RED, GREEN = 7, BLUE = -3 };

static const char *const queries[] = { "SELECT 1", "UPDATE t", "UPDATE u SET a=1, b=2", NULL };
static void (*late)(int thread, int round);
static void (*late_call)(int (*place)(int, long, const char *, enum colour), int thread, int round);
static int first;

/* The result is negative for one round in eleven. */
KEEP int place(int thread, long size, const char *name, enum colour colour)
{
	__asm__ volatile("" : : "r"(name), "r"(colour) : "memory");
	return size % 11 ? thread : -(int)size;
}

/* Takes 2 ms if it is slow: the time is the subject of conditions on `duration`. */
KEEP int wait_for(int is_slow)
{
	if (is_slow)
		usleep(2000);
	__asm__ volatile("" : "+r"(is_slow));
	return is_slow;
}

static void *work(void *data)
{
	int thread = (int)(long)data;
	char name[16];

	for (int round = 0; round < ROUNDS; round++) {
		unsigned char rows = (unsigned char)(round % 256);
		double price = round / 8.0;

		WAYMARK(shop, order, thread, round, rows, price);
		WAYMARK(shop, query, thread, round, WM_FIELD(sql, queries[round % 4]));
		snprintf(name, sizeof(name), "n%d", round % 10);
		place(thread, round, name, round % 3 ? GREEN : BLUE);
		PASS(thread, round, queries[round % 4]);
		memset(name, 'x', sizeof(name) - 1);
		if (late) {
			late(thread, round);
			late_call(place, thread, round);
		}
	}
	return NULL;
}

/* One name with two levels, one without any, and a field that is called so. */
static void levels(int number)
{
	static unsigned long power;
	enum colour colour = number % 3 ? GREEN : BLUE;
	int said = 1;

	WAYMARK_LEVEL(err, log, failed, number);
	WAYMARK_LEVEL(info, log, opened, said);
	said = 0;
	WAYMARK_LEVEL(debug, log, opened, said);
	WAYMARK_BEGIN_LEVEL(warning, log, long_one, number);
	WAYMARK_END_LEVEL(warning, log, long_one);
	{
		WAYMARK_SCOPE_LEVEL(debug_line, log, scope, number);
		WAYMARK(log, plain, number);
	}
	WAYMARK(log, own, WM_FIELD(level, number));
	WAYMARK(log, count, WM_FIELD(count, power), number);
	WAYMARK(log, painted, WM_ENUM(colour, RED, GREEN = 7, BLUE = -3));
	power = power ? power * 10 : 1;
}

static void all(void)
{
	pthread_t threads[THREADS];

	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)(first + i));
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 20; i++)
		wait_for(i % 5 == 0);
	for (int i = 0; i < 10; i++)
		levels(i);
}

int main(int count, char **arguments)
{
	const char *way = count > 1 ? arguments[1] : "plain";

	if (!strcmp(way, "wait")) {
		puts("ready");
		fflush(stdout);
		getchar();
	}
	all();
	if (!strcmp(way, "fork")) {
		pid_t child = fork();

		first = THREADS;
		if (!child) {
			all();
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
	if (!strcmp(way, "late")) {
		void *library = dlopen(arguments[2], RTLD_NOW);

		late = library ? (void (*)(int, int))dlsym(library, "late") : NULL;
		if (!late)
			return 1;
		*(void **)&late_call = dlsym(library, "late_call");
		all();
	}
	if (!strcmp(way, "kill"))
		raise(SIGKILL);
	return 0;
}
