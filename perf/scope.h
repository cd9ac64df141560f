/* SPDX-License-Identifier: MIT */
/*
 * The threads and CPUs of a scope, and the events that are open on them: which threads there are,
 * also of processes that start others meanwhile; CPUs that come and go. Which events these are is
 * the user's: counts.c and sampler_open.c.
 */
#ifndef PERF_SCOPE_H
#define PERF_SCOPE_H

#include "perf/count_event.h"
#include "process/target.h"

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

struct scope;

struct scope_way {
	/*
	 * Open all events, disabled, on a thread (cpu -1) or a CPU (tid -1), and scope_add() them.
	 * 0; -ESRCH: the thread has ended; an error with words. What was added is closed then.
	 */
	int (*open)(struct scope *scope, pid_t tid, int cpu, struct detail detail);
	/* Its CPU went, or the kernel dropped it: it is about to be closed. */
	void (*leave)(struct scope *scope, const struct opened *opened);
};

struct scope {
	const struct scope_way *way;
	const pid_t *ids; /* of processes, or threads; NULL: CPUs */
	size_t id_count;
	int are_threads;
	const unsigned int *cpus; /* NULL: all that are online */
	size_t cpu_count;
	int cgroup_fd; /* -1: none */
	size_t needs;  /* descriptors, for each thread or CPU */

	struct opened *opened;
	size_t count, room;
	struct place *places;
	size_t place_count, place_room;
	struct stop **stops; /* one for each process until they are enabled; NULL: none */
	unsigned int thread_count, cpus_back;
	int is_doubtful, is_enabled;
};

/* An event's read_format must be so that read(2) gives this. */
struct scope_value {
	uint64_t count, enabled_ns;
	uint64_t third; /* the user's */
};

/* Room first, so that scope_add() can't fail. 0, -ENOMEM. */
int scope_reserve(struct scope *scope, size_t more);
void scope_add(struct scope *scope, int fd, unsigned int event, int cpu, int is_leader);

/* Whether it can have its descriptors, and so many more. 0, or an error with words. */
int scope_need(const struct scope *scope, size_t more, struct detail detail);

/*
 * Open all, disabled. Processes that start or end threads meanwhile are stopped until
 * scope_enable() or scope_close(). 0, or an error with words. scope_close() also after an error.
 */
int scope_open(struct scope *scope, struct detail detail);

void scope_enable(struct scope *scope);
void scope_disable(struct scope *scope);

/*
 * Of CPUs: open and enable the events on those that came. 0, or -errno where the list of CPUs can't
 * be read.
 */
int scope_follow(struct scope *scope);

/* 0, -errno. */
int scope_read(const struct opened *opened, struct scope_value *value);

/* Close all events, let stopped processes run. The struct may not be used afterwards. */
void scope_close(struct scope *scope);

/*
 * Why the kernel refused an event, in words; has_kernel: it was to see the kernel's part. Returns
 * the error.
 */
int scope_refused(const struct scope *scope, const struct count_event *event, int has_kernel,
		  pid_t tid, int cpu, int error, struct detail detail);

#endif
