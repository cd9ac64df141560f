/* SPDX-License-Identifier: MIT */
/*
 * Frames that begin and end in every way: each function's variable takes a known sequence of
 * values, and whatever uses the same stack behind it writes others.
 */
#include <alloca.h>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

struct pair {
	int first;
	long second;
};

static jmp_buf back;
static volatile int sink;

/* Writes all over the stack that a frame before had. */
extern "C" NOINLINE void litter(int value)
{
	volatile int all[512];

	for (int i = 0; i < 512; i++)
		all[i] = value;
	sink = all[value & 511];
}

extern "C" NOINLINE void store(volatile int *to, int value)
{
	*to = value;
}

extern "C" NOINLINE int plain(int rounds)
{
	volatile int mine = 0;
	struct pair both = { 0, 0 };
	char *more = (char *)alloca((size_t)rounds * 16 + 1);
	int row[4];

	for (int &of_row : row) /* memset()'s store may fire twice: waymark-watch(7) */
		store(&of_row, 0);
	memset(more, 1, (size_t)rounds * 16 + 1);
	for (int i = 1; i <= rounds; i++) {
		mine = i;
		store(&both.first, 10 * i);
		both.second = 100 * i;
		store(&row[i % 4], i);
	}
	store(&mine, 99);
	return mine + both.first + (int)both.second + row[1] + more[rounds];
}

extern "C" NOINLINE int deep(int level)
{
	volatile int mine = level;

	if (level)
		mine = mine + deep(level - 1);
	return mine;
}

extern "C" NOINLINE void leaves(int value)
{
	volatile int mine = value;

	store(&mine, value + 1);
	longjmp(back, 1);
}

extern "C" NOINLINE void throws(int value)
{
	volatile int mine = value;

	store(&mine, value + 1);
	throw value;
}

extern "C" NOINLINE int last(volatile int *given)
{
	volatile int own[64];

	for (int i = 0; i < 64; i++)
		own[i] = 7777;
	return own[3] + (given ? 1 : 0);
}

/* With optimisation the call is a jump, and the frame is gone with it. */
extern "C" NOINLINE int jumps(int value)
{
	volatile int mine = value;

	mine = value + 1;
	return last(nullptr);
}

static void on_signal(int number)
{
	(void)number;
	sink = plain(1);
}

static volatile int *shown;
static volatile int is_shown, is_done;

static void *other(void *data)
{
	while (!is_shown)
		usleep(100);
	*shown = 41;
	*shown = 42;
	is_done = 1;
	return data;
}

extern "C" NOINLINE int shows()
{
	volatile int mine = 1;

	shown = &mine;
	is_shown = 1;
	while (!is_done)
		usleep(100);
	return mine;
}

static void *many(void *data)
{
	long sum = 0;

	for (int i = 0; i < 20; i++)
		sum += plain(2);
	return sum == 20 * (99 + 20 + 200 + 1 + 1) ? data : nullptr;
}

static void on_stack_of_its_own(int times)
{
	static char stack[65536];
	stack_t with = {};
	struct sigaction action = {};

	with.ss_sp = stack;
	with.ss_size = sizeof(stack);
	sigaltstack(&with, nullptr);
	action.sa_handler = on_signal;
	action.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR1, &action, nullptr);
	for (int i = 0; i < times; i++) {
		raise(SIGUSR1);
		litter(i);
	}
}

extern "C" NOINLINE void add(volatile long *to)
{
	*to = *to + 1;
}

/* Long enough to be found at it. */
extern "C" NOINLINE long stays(int rounds)
{
	volatile long handled = 0;

	for (int i = 0; i < rounds; i++) {
		usleep(10000);
		add(&handled);
	}
	return handled;
}

static void *stay(void *data)
{
	volatile long sum = stays(300);

	litter(4444);
	litter(5555);
	sum = sum + stays(5);
	return sum == 305 ? data : nullptr;
}

extern "C" NOINLINE int pairs(int value)
{
	volatile int mine = value;

	store(&mine, value + 1);
	return mine;
}

/* More threads than there are frames that can be watched, without a pause. */
static void *contend(void *data)
{
	int ok = 1;

	for (int i = 0; !is_done; i++)
		ok &= pairs(i) == i + 1;
	return ok ? data : nullptr;
}

static int run(const char *what, int times)
{
	pthread_t threads[6];
	void *got;
	int ok = 1;

	for (int i = 0; i < times; i++) {
		if (!strcmp(what, "plain"))
			ok &= plain(3) == 99 + 30 + 300 + 1 + 1;
		else if (!strcmp(what, "deep"))
			ok &= deep(5) == 15;
		else if (!strcmp(what, "jumps"))
			ok &= jumps(5) == 7777;
		else if (!strcmp(what, "leaves") && !setjmp(back))
			leaves(10);
		else if (!strcmp(what, "throws")) {
			try {
				throws(20);
			} catch (int value) {
				ok &= value == 20;
			}
		}
		litter(i);
	}
	if (!strcmp(what, "signal"))
		on_stack_of_its_own(times);
	if (!strcmp(what, "shows")) {
		pthread_create(&threads[0], nullptr, other, nullptr);
		ok &= shows() == 42;
		pthread_join(threads[0], nullptr);
	}
	for (int i = 0; i < 6 && !strcmp(what, "contend"); i++)
		pthread_create(&threads[i], nullptr, contend, &threads);
	if (!strcmp(what, "contend"))
		sleep((unsigned int)times);
	is_done = is_done || !strcmp(what, "contend");
	for (int i = 0; i < 6 && !strcmp(what, "contend"); i++) {
		pthread_join(threads[i], &got);
		ok &= got == &threads;
	}
	for (int i = 0; i < 4 && !strcmp(what, "threads"); i++)
		pthread_create(&threads[i], nullptr, many, &threads);
	for (int i = 0; i < 2 && !strcmp(what, "stays"); i++)
		pthread_create(&threads[i], nullptr, stay, &threads);
	for (int i = 0; i < 2 && !strcmp(what, "stays"); i++) {
		pthread_join(threads[i], &got);
		ok &= got == &threads;
	}
	for (int i = 0; i < 4 && !strcmp(what, "threads"); i++) {
		pthread_join(threads[i], &got);
		ok &= got == &threads;
	}
	return ok;
}

int main(int argc, char **argv)
{
	int ok = argc == 3 && run(argv[1], atoi(argv[2]));

	puts(ok ? "right" : "wrong");
	return !ok;
}
