/* SPDX-License-Identifier: MIT */
/*
 * The threads and CPUs of a scope, and the events that are open on them: which threads there are,
 * also of processes that start others meanwhile; CPUs that come and go. Which events these are is
 * the user's: counts.c and sampler.c.
 */
#ifndef RECORD_PERF_EXTENT_H
#define RECORD_PERF_EXTENT_H

#include "record/perf/count_event.h"
#include "target/process/target.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* One event that is open. */
struct opened {
	int fd;
	unsigned int event;
	int cpu; /* -1: on any */
	int is_leader;
};

/* A CPU that was ever online. */
struct place {
	int cpu;
	int is_online;
	uint64_t enabled_ns; /* of its first event, at the last look */
};

struct extent;

struct extent_way {
	/*
	 * Open all events, disabled, on a thread (cpu -1) or a CPU (tid -1), and extent_add() them.
	 * 0; -ESRCH: the thread has ended; an error with words. After an error the extent closes
	 * what was added.
	 */
	int (*open)(struct extent *extent, pid_t tid, int cpu, struct detail detail);
	/* Its CPU went, or the kernel dropped it: it is about to be closed. */
	void (*leave)(struct extent *extent, const struct opened *opened);
};

struct extent {
	const struct extent_way *way;
	const pid_t *ids; /* of processes, or threads; NULL: CPUs. Those opened last */
	size_t id_count;
	int are_threads;
	const unsigned int *cpus; /* NULL: all that are online */
	size_t cpu_count;
	int cgroup_fd; /* -1: none */
	size_t needs;  /* descriptors, for each thread or CPU */

	struct opened *opened;
	size_t count, room;
	size_t joined_from; /* those that extent_join() opened last */
	struct place *places;
	size_t place_count, place_room;
	struct stop **stops; /* one for each process until they are enabled; NULL: none */
	unsigned int thread_count, cpus_back;
	int is_doubtful, is_enabled;
};

/* An event's read_format must be so that read(2) gives this. */
struct extent_value {
	uint64_t count, enabled_ns;
	uint64_t third; /* the user's */
};

/* Room first, so that extent_add() can't fail. 0, -ENOMEM. */
int extent_reserve(struct extent *extent, size_t more);
void extent_add(struct extent *extent, int fd, unsigned int event, int cpu, int is_leader);

/* Its CPUs that are online; free() *cpus. 0; -ENODEV: one that was asked for is not; -errno. */
int extent_cpus(const struct extent *extent, unsigned int **cpus, size_t *count,
		struct detail detail);

/* Whether it can have its descriptors, and so many more. 0, or an error with words. */
int extent_need(const struct extent *extent, size_t more, struct detail detail);

/*
 * Open all, disabled. Processes that start or end threads meanwhile are stopped until
 * extent_enable() or extent_close(). 0, or an error with words. extent_close() also after an error.
 */
int extent_open(struct extent *extent, struct detail detail);

void extent_enable(struct extent *extent);

/*
 * One more process, to which `ids` refers from here on; extent_enable() follows. 0, or an error
 * with words, and nothing is open on it. extent_part() closes what was opened on the last one.
 */
int extent_join(struct extent *extent, const pid_t *pid, struct detail detail);
void extent_part(struct extent *extent);

void extent_disable(struct extent *extent);

/*
 * Of CPUs: open and enable the events on those that came. 0, or -errno where the list of CPUs can't
 * be read.
 */
int extent_follow(struct extent *extent);

/* 0, -errno. */
int extent_read(const struct opened *opened, struct extent_value *value);

/* Close all events, let stopped processes run. The struct may not be used afterwards. */
void extent_close(struct extent *extent);

/*
 * Why the kernel refused an event, in words; has_kernel: it was to see the kernel's part. Returns
 * the error.
 */
int extent_refused(const struct extent *extent, const struct count_event *event, int has_kernel,
		   pid_t tid, int cpu, int error, struct detail detail);

#endif
