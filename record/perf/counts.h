/* SPDX-License-Identifier: MIT */
/*
 * Counts of kernel events over a scope: threads and processes with what they start, a command, or
 * CPUs. All events are opened, disabled, on all of the scope, before any is enabled. If the kernel
 * refuses one, all are closed, and none has counted.
 *
 * The descriptors hold the events, so the end of this process ends them. One thread at a time uses
 * an object. Not for signal handlers.
 */
#ifndef RECORD_PERF_COUNTS_H
#define RECORD_PERF_COUNTS_H

#include "record/perf/count_event.h"

#include <sys/types.h>

enum counts_scope {
	COUNTS_THREADS,	  /* these threads */
	COUNTS_PROCESSES, /* all threads of these processes */
	COUNTS_COMMAND,	  /* one process, from its next execve(2) on */
	COUNTS_CPUS,	  /* whatever runs on CPUs, also on those that come later */
};

struct counts_request {
	enum counts_scope scope;
	const struct count_event *events;
	const unsigned int *groups; /* of each event; neighbours with one number count together */
	size_t event_count;
	const pid_t *ids; /* of threads or processes */
	size_t id_count;
	const unsigned int *cpus; /* COUNTS_CPUS: these; NULL: all that are online */
	size_t cpu_count;
	int cgroup_fd;	 /* COUNTS_CPUS: what this cgroup runs there; -1: everything */
	int no_children; /* threads and processes that they start are left out */
};

/* What one event counted, summed up over the scope. */
struct count_value {
	uint64_t count;
	uint64_t enabled_ns; /* sum of the times in which it was to count */
	uint64_t running_ns; /* and in which the unit counted it; less where events took turns */
};

struct counts_coverage {
	unsigned int threads, cpus; /* on which it is open */
	unsigned int cpus_back;	    /* how often a CPU came, or came back */
	int is_doubtful; /* a process that had to be stopped could not be: threads may be missing */
	int excludes_kernel; /* perf_event_paranoid forbids to count in the kernel */
};

struct counts;

/*
 * Open, disabled. The request's arrays must live as long as the object. Processes that start or end
 * threads meanwhile are stopped until counts_enable() or counts_close(), so that each thread has
 * each event once. Each of their threads then counts one switch more, from the stop.
 *
 * 0; -WM_E_COUNT_UNIT: the machine has no unit for an event, or the group is too large for it;
 * -WM_E_GONE: no such thread or process; -WM_E_PERF_DENIED, -WM_E_NO_DESCRIPTORS, -ENOSYS, -EPERM,
 * -EINVAL, -ENOMEM, or the kernel's -errno, with words.
 */
int counts_open(struct counts **counts, const struct counts_request *request, struct detail detail);

/* Begin to count; not for COUNTS_COMMAND, which execve(2) begins. */
void counts_enable(struct counts *counts);

/*
 * One more process, disabled until counts_enable(), or refused as of counts_open(). The object
 * keeps `pid`. counts_part() takes it back, with what it counted. Of COUNTS_PROCESSES.
 */
int counts_join(struct counts *counts, const pid_t *pid, struct detail detail);
void counts_part(struct counts *counts);

/*
 * CPUs come and go: open and enable the events on those that came. It interrupts each CPU, so some
 * times a second are enough. 0, -ENOMEM, or -errno where the list of CPUs can't be read.
 */
int counts_follow(struct counts *counts);

/* values[] has one element for each event. 0, -errno. Counting continues. */
int counts_read(struct counts *counts, struct count_value *values);

void counts_covered(const struct counts *counts, struct counts_coverage *coverage);

/* NULL is allowed. */
void counts_close(struct counts *counts);

#endif
