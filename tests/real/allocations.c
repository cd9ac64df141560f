/* SPDX-License-Identifier: MIT */
/*
 * Sixteen threads allocate, fill, check and free, also what others allocated. A test recognises our
 * calls by sizes that no other code asks for.
 *
 * allocations ROUNDS
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 16
#define MALLOC_BYTES 4321
#define CALLOC_BYTES 1733 /* and 3 of them */
#define REALLOC_BYTES 9871

static int rounds;
static unsigned char *passed_on[THREADS];
static pthread_barrier_t barrier;

static void fail(const char *what)
{
	fprintf(stderr, "allocations: %s\n", what);
	abort();
}

static void check(const unsigned char *block, size_t bytes, unsigned char value)
{
	for (size_t i = 0; i < bytes; i++)
		if (block[i] != value)
			fail("a block isn't what was written");
}

static void *work(void *data)
{
	long number = (long)data;
	unsigned char mine = (unsigned char)(number + 1);

	for (int round = 0; round < rounds; round++) {
		unsigned char *a = malloc(MALLOC_BYTES), *b = calloc(3, CALLOC_BYTES), *old;

		if (!a || !b || (uintptr_t)a % 16 || (uintptr_t)b % 16)
			fail("no memory");
		check(b, 3 * CALLOC_BYTES, 0);
		memset(a, mine, MALLOC_BYTES);
		a = realloc(a, REALLOC_BYTES);
		if (!a)
			fail("no memory");
		check(a, MALLOC_BYTES, mine);
		old = __atomic_exchange_n(&passed_on[(number + 1) % THREADS], a, __ATOMIC_ACQ_REL);
		if (old)
			check(old, MALLOC_BYTES, old[0]);
		free(old);
		free(b);
	}
	pthread_barrier_wait(&barrier);
	free(passed_on[number]);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];

	rounds = argc > 1 ? atoi(argv[1]) : 100;
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (long i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)i))
			return 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	puts("all blocks were whole");
	return 0;
}
