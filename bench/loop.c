/* SPDX-License-Identifier: MIT */
/*
 * What a live marker costs. Compiled once for each way of marking; the process that starts it
 * decides whether the marker is live. Prints a line `raw NAME VALUE` for each median over the runs,
 * in nanoseconds of CPU time an iteration, loop included:
 *
 *	empty     the loop alone
 *	floor     and rdtsc with a store of 24 bytes into a ring
 *	number    a marker with int and uint64_t
 *	text      a marker with int and a string of 16 characters
 *	number2   as number, two threads on two CPUs, mean of both
 *	floor2    as floor, likewise; each thread has a ring of its own
 *	hits      how often a marker was passed, in all
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/measure.h"

#if defined(MARK_WAYMARK)
#include <waymark/marker.h>
#define MARK_NUMBER(a, b) WAYMARK(bench, number, a, b)
#define MARK_TEXT(a, b) WAYMARK(bench, text, a, b)
#elif defined(MARK_LTTNG)
#include "bench/lttng/provider.h"
#define MARK_NUMBER(a, b) lttng_ust_tracepoint(waymark_bench, number, a, b)
#define MARK_TEXT(a, b) lttng_ust_tracepoint(waymark_bench, text, a, b)
#else
#include <sys/sdt.h>
#define MARK_NUMBER(a, b) DTRACE_PROBE2(waymark_bench, number, a, b)
#define MARK_TEXT(a, b) DTRACE_PROBE2(waymark_bench, text, a, b)
#endif

#define RING_WORDS (3 * 4096u) /* 96 KiB */

typedef void loop_fn(uint64_t count);

static __thread uint64_t ring[RING_WORDS];
static const char text[] = "sixteen letters!";
static uint64_t hits;

#define BODY __attribute__((noipa, aligned(64)))

BODY static void loop_empty(uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		__asm__ volatile("" : : "r"(i));
}

BODY static void loop_floor(uint64_t count)
{
	uint64_t *to = ring;

	for (uint64_t i = 0; i < count; i++) {
		to[0] = __builtin_ia32_rdtsc();
		to[1] = i;
		to[2] = count;
		__asm__ volatile("" : : "r"(i) : "memory");
		to += 3;
		if (to == ring + RING_WORDS)
			to = ring;
	}
}

BODY static void loop_number(uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		__asm__ volatile("" : : "r"(i));
		MARK_NUMBER((int)i, count);
	}
}

BODY static void loop_text(uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		__asm__ volatile("" : : "r"(i));
		MARK_TEXT((int)i, text);
	}
}

static double time_one(loop_fn *loop, uint64_t count)
{
	uint64_t start = measure_cpu_ns();

	loop(count);
	return (double)(measure_cpu_ns() - start) / (double)count;
}

struct pair {
	pthread_barrier_t *start;
	unsigned int cpu;
	uint64_t count;
	loop_fn *loop;
	double ns;
};

static void *pair_main(void *data)
{
	struct pair *pair = data;

	measure_pin(pair->cpu);
	pair->loop(1000); /* its first page, its first touch of code */
	pthread_barrier_wait(pair->start);
	pair->ns = time_one(pair->loop, pair->count);
	return NULL;
}

/* Mean of two threads at once. */
static double time_two(loop_fn *loop, uint64_t count)
{
	pthread_barrier_t start;
	struct pair pairs[2];
	pthread_t threads[2];

	pthread_barrier_init(&start, NULL, 2);
	for (unsigned int i = 0; i < 2; i++) {
		pairs[i] = (struct pair){ .start = &start, .cpu = i, .count = count, .loop = loop };
		if (pthread_create(&threads[i], NULL, pair_main, &pairs[i]))
			exit(1);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	if (loop != loop_floor)
		hits += 2 * (count + 1000);
	pthread_barrier_destroy(&start);
	return (pairs[0].ns + pairs[1].ns) / 2;
}

static void show(const char *name, double *values, unsigned int runs)
{
	printf("raw %s %.4f\n", name, measure_median(values, runs));
}

int main(int argc, char **argv)
{
	static double empty[MEASURE_RUNS_MAX], least[MEASURE_RUNS_MAX], number[MEASURE_RUNS_MAX];
	static double texts[MEASURE_RUNS_MAX], number2[MEASURE_RUNS_MAX];
	static double floor2[MEASURE_RUNS_MAX];
	double events = argc > 1 ? strtod(argv[1], NULL) : 2e6;
	uint64_t count = (uint64_t)(events * measure_scale()) + 1000;
	unsigned int runs = measure_runs(9);
	int two = measure_cpus() >= 2;

	measure_pin(measure_cpus() - 1);
	for (unsigned int run = 0; run < runs; run++) {
		empty[run] = time_one(loop_empty, count * 4);
		least[run] = time_one(loop_floor, count);
		number[run] = time_one(loop_number, count);
		texts[run] = time_one(loop_text, count);
		hits += 2 * count;
		if (two) {
			number2[run] = time_two(loop_number, count);
			floor2[run] = time_two(loop_floor, count);
		}
	}
	show("empty", empty, runs);
	show("floor", least, runs);
	show("number", number, runs);
	show("text", texts, runs);
	if (two) {
		show("number2", number2, runs);
		show("floor2", floor2, runs);
	}
	printf("raw hits %llu\n", (unsigned long long)hits);
	return 0;
}
