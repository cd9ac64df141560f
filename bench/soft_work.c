/* SPDX-License-Identifier: MIT */
/*
 * Work for soft.sh that is the same for every way of recording it: soft_work THREADS ROUNDS. Each
 * of the threads does so many rounds of its own: matches found by a hash chain, an interpreter's
 * loop, a sort, small functions. It prints, of the work alone, "raw clock S", "raw cpu S" (of the
 * process), and "raw sum N", which shows whether the work was right; and "raw fib_ns NS", what a
 * call of fib(14) takes, for a debugger that records that.
 *
 * Built with -fsanitize-coverage=trace-pc each block puts its address into a ring, which is what
 * that option is for.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define THREADS_MAX 256
#define TEXT_BYTES 8192u
#define HASHES 4096u
#define RING_WORDS (UINT64_C(8) << 20) /* 64 MB */

void __sanitizer_cov_trace_pc(void);

static uint64_t *ring;
static uint64_t ring_at;

__attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_pc(void)
{
	if (ring)
		ring[ring_at++ % RING_WORDS] = (uint64_t)__builtin_return_address(0);
}

struct worker {
	pthread_t thread;
	uint64_t rounds, sum;
};

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

/* The sum of the lengths of the longest matches, as a compressor looks for them. */
static uint64_t match(const uint8_t *text)
{
	static _Thread_local uint16_t heads[HASHES], chain[TEXT_BYTES];
	uint64_t sum = 0;

	memset(heads, 0, sizeof(heads));
	for (uint32_t at = 1; at + 3 < TEXT_BYTES; at++) {
		uint32_t hash = (text[at] * 31u + text[at + 1] * 7u + text[at + 2]) % HASHES,
			 best = 0;

		for (uint32_t from = heads[hash], tries = 8; from && tries--; from = chain[from]) {
			uint32_t length = 0;

			while (length < 32 && at + length < TEXT_BYTES &&
			       text[from + length] == text[at + length])
				length++;
			if (length > best)
				best = length;
		}
		sum += best;
		chain[at] = heads[hash];
		heads[hash] = (uint16_t)at;
	}
	return sum;
}

static uint64_t interpret(const uint8_t *code)
{
	uint64_t a = 1, b = 2;

	for (uint32_t at = 0; at < TEXT_BYTES; at++) {
		switch (code[at] & 7) {
		case 0:
			a += b;
			break;
		case 1:
			b ^= a >> 3;
			break;
		case 2:
			a = a * 3 + 1;
			break;
		case 3:
			if (a & 1)
				at++;
			break;
		case 4:
			b = (b << 5) | (b >> 59);
			break;
		case 5:
			a -= b >> 1;
			break;
		case 6:
			if (a > b)
				b++;
			break;
		default:
			a ^= b;
		}
	}
	return a ^ b;
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static __attribute__((noinline)) uint64_t fib(unsigned int n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static void *work(void *data)
{
	struct worker *worker = data;
	uint8_t text[TEXT_BYTES];
	uint32_t numbers[1024], state = 1;

	for (uint64_t round = 0; round < worker->rounds; round++) {
		for (uint32_t i = 0; i < TEXT_BYTES; i++)
			text[i] = (uint8_t)(next_random(&state) % 11 + next_random(&state) % 3);
		for (uint32_t i = 0; i < 1024; i++)
			numbers[i] = next_random(&state);
		qsort(numbers, 1024, sizeof(*numbers), compare);
		worker->sum += match(text) + interpret(text) + numbers[512] + fib(14);
	}
	return NULL;
}

static double seconds(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	static struct worker workers[THREADS_MAX];
	long threads = argc == 3 ? strtol(argv[1], NULL, 10) : 0;
	double clock = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
	uint64_t sum = 0;

	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	if (getenv("SOFT_WORK_RING"))
		ring = calloc(RING_WORDS, sizeof(*ring));
	for (long i = 0; i < threads; i++)
		workers[i].rounds = strtoull(argv[2], NULL, 10);
	for (long i = 1; i < threads; i++)
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			return 1;
	work(&workers[0]);
	sum = workers[0].sum;
	for (long i = 1; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		sum += workers[i].sum;
	}
	printf("raw clock %.4f\nraw cpu %.4f\nraw sum %llu\n", seconds(CLOCK_MONOTONIC) - clock,
	       seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu, (unsigned long long)sum);
	cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
	for (int i = 0; i < 1000; i++)
		sum += fib(14);
	printf("raw fib_ns %.0f\n", (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 1e6);
	return sum == 0;
}
