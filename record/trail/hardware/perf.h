/* SPDX-License-Identifier: MIT */
/*
 * The kernel's perf_event_open(2) and its other calls, as a table, so that tests can simulate
 * hardware that no test machine has. All functions return 0 or more, or -errno. Any thread.
 */
#ifndef RECORD_TRAIL_HARDWARE_PERF_H
#define RECORD_TRAIL_HARDWARE_PERF_H

#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct perf_calls {
	/* A descriptor, on any processor. */
	int (*open)(struct perf_event_attr *attr, pid_t tid);
	int (*map)(void **memory, size_t bytes, int fd, size_t offset);
	void (*unmap)(void *memory, size_t bytes);
	int (*control)(int fd, unsigned long request);
	void (*close)(int fd);
};

extern const struct perf_calls perf_kernel;

#endif
