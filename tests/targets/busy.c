/* SPDX-License-Identifier: MIT */
/*
 * Computes the same over and over, with values in integer and vector registers, in the flags and in
 * the red zone; any that changes shows in the sum. With an argument: that many threads do it.
 */
#include "target.h"

#include <pthread.h>
#include <stdatomic.h>

static atomic_int over;

/* A leaf: its array is in the red zone. No call, so every value stays where it is. */
static __attribute__((noinline)) uint64_t mix(uint64_t seed)
{
	volatile uint64_t zone[12];
	uint64_t a = seed, b = seed ^ 0x9e3779b97f4a7c15u, c = 0;
	double x = 1.0, y = 0.5;

	for (int i = 0; i < 12; i++)
		zone[i] = seed + (uint64_t)i;
	for (int i = 0; i < 20000; i++) {
		a = (a << 7 | a >> 57) + b;
		b ^= a * 0xff51afd7ed558ccdu;
		c += a < b;
		x = x * 1.0000001 + y;
		y = y * 0.9999999;
		zone[i % 12] += a;
	}
	for (int i = 0; i < 12; i++)
		c += zone[i];
	return a ^ b ^ c ^ (uint64_t)(x * 1e6) ^ (uint64_t)(y * 1e9);
}

static void *work(void *arg)
{
	const uint64_t want = mix(42);

	(void)arg;
	while (!atomic_load_explicit(&over, memory_order_relaxed))
		target_want(mix(42) == want, "the sum");
	return NULL;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 0;
	const uint64_t want = mix(42);
	pthread_t threads[512];

	for (int i = 0; i < count; i++)
		target_want(!pthread_create(&threads[i], NULL, work, NULL), "pthread_create");
	target_ready();
	while (!target_over())
		target_want(mix(42) == want, "the sum");
	over = 1;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
