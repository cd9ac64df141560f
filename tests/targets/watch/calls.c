/* SPDX-License-Identifier: MIT */
/* Stores with callers of many kinds; -DLIBRARY: the library that one of them is in. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

int through(int (*call)(int), int n);

#ifdef LIBRARY
int through(int (*call)(int), int n)
{
	return call(n) + 1;
}
#else
volatile long value;

__attribute__((noinline)) static int store(int n)
{
	value += n;
	return n;
}

static inline __attribute__((always_inline)) int inner(int n)
{
	return store(n) * 3;
}

static inline __attribute__((always_inline)) int outer(int n)
{
	return inner(n + 1) + 2;
}

__attribute__((noinline)) static int with_inline(int n)
{
	return outer(n) * 7;
}

__attribute__((noinline)) static int recurse(int n)
{
	volatile int kept = n;
	int got = n ? recurse(n - 1) : with_inline(n);

	return got * 3 + kept;
}

__attribute__((noinline)) static int aligned(int n)
{
	char room[128] __attribute__((aligned(64)));

	room[n] = 1;
	__asm__ volatile("" : : "r"(room) : "memory");
	return store(n) + room[n];
}

__attribute__((noinline)) static int many(int n)
{
	volatile char *room = __builtin_alloca((size_t)n + 100);

	room[n] = 1;
	return aligned(n) + room[n];
}

static volatile int handled;

static void handle(int signal)
{
	handled = many(signal);
}

static int by_library(const void *one, const void *other)
{
	return recurse(1) + *(const char *)one - *(const char *)other;
}

static void *run(void *data)
{
	recurse(2);
	return data;
}

__attribute__((noinline)) static int overwritten(int n)
{
	/* a store while the return address is garbage */
	__asm__ volatile("leaq 1f(%%rip), %%rax\n\tpushq $0x1234\n\tincq %0\n\taddq $8, %%rsp\n1:"
			 : "+m"(value)
			 :
			 : "rax", "cc", "memory");
	return n;
}

int main(int words, char **word)
{
	static char stack[1 << 16];
	stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_handler = handle, .sa_flags = SA_ONSTACK };
	char letters[] = "ba";
	pthread_t thread;

	(void)words;
	(void)word;
	recurse(3);
	through(recurse, 2);
	many(5);
	qsort(letters, 2, 1, by_library);
	pthread_create(&thread, NULL, run, NULL);
	pthread_join(thread, NULL);
	sigaltstack(&other, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	overwritten(3);
	return 0;
}
#endif
