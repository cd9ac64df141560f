/* SPDX-License-Identifier: MIT */
/*
 * A program that stores to one variable: watch_loop COUNT THREADS [bare|signal], printing `raw NAME
 * VALUE`, the time of a store in ns: of all threads together, and the CPU time that it takes.
 * `bare`: the variable has a kernel breakpoint of the program's own that counts, and does no more:
 * the floor of every watch. `signal`: each hit is a SIGTRAP, too, whose handler does nothing.
 */
#define _GNU_SOURCE
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 64
#define SKIPPED 77

volatile uint64_t watched;
static int count = 1000, threads = 1;

static uint64_t ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The debugger waits for this one, so that only what comes behind it is timed under its watch. */
void watch_begin(void);

__attribute__((noinline)) void watch_begin(void)
{
	__asm__ volatile("" ::: "memory");
}

static void *store(void *number)
{
	for (int i = 1; i <= count; i++)
		watched = (uint64_t)(uintptr_t)number << 32 | (uint32_t)i;
	return NULL;
}

static void on_trap(int number)
{
	(void)number;
}

static int open_own(int has_signal)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.bp_type = HW_BREAKPOINT_W,
		.bp_addr = (uintptr_t)&watched,
		.bp_len = HW_BREAKPOINT_LEN_8,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.inherit = 1,
		.inherit_thread = 1,
	};

	if (has_signal) {
		attr.sigtrap = 1;
		attr.remove_on_exec = 1;
		attr.sample_period = 1;
		signal(SIGTRAP, on_trap);
	}
	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

int main(int argc, char **argv)
{
	pthread_t all[THREADS_MAX];
	uint64_t wall_ns, cpu_ns;
	double stores;

	if (argc > 1)
		count = atoi(argv[1]);
	if (argc > 2 && atoi(argv[2]) <= THREADS_MAX)
		threads = atoi(argv[2]);
	if (argc > 3 && open_own(!strcmp(argv[3], "signal")) < 0) {
		puts("no kernel breakpoint is to be had");
		return SKIPPED;
	}
	stores = (double)count * threads;
	watch_begin();
	wall_ns = ns(CLOCK_MONOTONIC);
	cpu_ns = ns(CLOCK_PROCESS_CPUTIME_ID);
	for (intptr_t i = 1; i < threads; i++)
		pthread_create(&all[i], NULL, store, (void *)i);
	store(NULL);
	for (int i = 1; i < threads; i++)
		pthread_join(all[i], NULL);
	printf("raw cpu %.1f\n", (double)(ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns) / stores);
	printf("raw wall %.1f\n", (double)(ns(CLOCK_MONOTONIC) - wall_ns) / stores);
	return 0;
}
