/* SPDX-License-Identifier: MIT */
/*
 * Sums of a trace's kernel events: what counts (count:NAME) came to, and how often the kernel
 * stopped an event for a while (kernel:throttled).
 */
#ifndef READ_PASS_KERNEL_SUMS_H
#define READ_PASS_KERNEL_SUMS_H

#include "trace/schema.h"

#include <stddef.h>
#include <stdint.h>

#define KERNEL_SUMS_MAX 1024 /* rows of each; what a damaged trace has beyond them is left out */

#define KERNEL_COUNT_VALUES 3

struct kernel_count {
	char name[128]; /* without "count:"; of a group, of one of its events */
	uint32_t pid;	/* 0: of several processes, or of CPUs */
	int is_time;	/* in nanoseconds */
	uint64_t count, enabled_ns, running_ns;
	uint64_t last[KERNEL_COUNT_VALUES], before[KERNEL_COUNT_VALUES]; /* these three */
};

struct kernel_throttle {
	char event[64];
	uint64_t times;
};

/* Zeroed: empty. */
struct kernel_sums {
	struct kernel_count *counts;
	size_t count, room, next;
	struct kernel_throttle *throttles;
	size_t throttle_count, throttle_room;
};

/* Whether its events are summed. */
int kernel_sums_has(const struct trace_class *class);

/*
 * Take an event of such a class. Those of a count come in order of time. 0 or -ENOMEM.
 */
int kernel_sums_add(struct kernel_sums *sums, const struct trace_class *class,
		    const uint8_t *fields);

/* Counters took turns, and this one did not count all the time. */
int kernel_count_is_scaled(const struct kernel_count *count);

/* As if it had counted all the time; below 0: it never did. */
double kernel_count_scaled(const struct kernel_count *count);

void kernel_sums_release(struct kernel_sums *sums);

#endif
