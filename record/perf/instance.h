/* SPDX-License-Identifier: MIT */
/*
 * One kernel event: a source (of an object a breakpoint) on a thread or a CPU. An object's events
 * of one thread form a group in the order of their sources, so that one call enables all of them,
 * at one time; for a group of four the kernel interrupts the thread's CPU twice, for four events
 * alone eight times.
 *
 * A group can't be made on threads that run: the kernel exchanges the events of a thread with those
 * of one that it started, as both have the same, rather than to switch them; so the next event of
 * the group would find its leader elsewhere.
 */
#ifndef RECORD_PERF_INSTANCE_H
#define RECORD_PERF_INSTANCE_H

#include "record/perf/kernel_event.h"
#include "target/process/target.h"

struct instance {
	int fd;
	pid_t tid; /* -1: a CPU's */
	int cpu;   /* -1: a thread's */
	unsigned int source;
	int is_leader;
};

/* What an attribute needs beside the source. */
struct instance_form {
	enum event_scope scope;
	unsigned int flags; /* of enum event_flag */
	uint8_t generation;
	uint8_t is_disabled;
	uint8_t is_exchanged; /* see instance_keeps_place() */
	uint8_t tells_tasks;  /* of its threads, which task each started; into its ring */
};

struct perf_event_attr;

/*
 * perf_event_open(2), once more where this process may have more descriptors. cgroup_fd: of what
 * that runs on the CPU (tid -1); -1: none. The descriptor, or -errno.
 */
int instance_open_attr(struct perf_event_attr *attr, pid_t tid, int cpu, int group_fd,
		       int cgroup_fd);

/*
 * Open it: instance->tid, cpu, source and is_leader say where and as what; group_fd is its
 * leader's, or -1. Leaders are opened disabled, the others follow theirs. 0 and instance->fd, or
 * the kernel's -errno.
 */
int instance_open(struct instance *instance, const struct event_source *source,
		  const struct instance_form *form, int group_fd);

/*
 * Change it and what inherited it. They are enabled afterwards, but the rest of a group that is
 * disabled as its leader is. After an error any of them may have the new source, or be off: put the
 * old one back.
 */
int instance_modify(const struct instance *instance, const struct event_source *source,
		    const struct instance_form *form);

/* Its records go into this event's ring, which is of the same CPU. 0, -errno. */
int instance_to_ring(const struct instance *instance, int ring_fd);

/* Of a leader: all events of its group, and what inherited them. */
void instance_enable(const struct instance *leader);
void instance_disable(const struct instance *leader);

/*
 * What it counted, with all that inherited it. An event's read_format must be so that read(2) gives
 * this: the time that its threads or CPU ran; and of it that with a register, or the user's choice.
 */
struct instance_count {
	uint64_t hits;
	uint64_t enabled_ns, third;
};

/* 0, -errno. One whose group was torn counted nothing. */
int instance_read(const struct instance *instance, struct instance_count *count);

/*
 * How many debug registers a thread has left for events on that CPU, or on any (-1): so many are
 * taken for a moment and given back. 0 to EVENT_SOURCES_MAX, -ESRCH, -errno.
 */
int instance_free_registers(pid_t tid, int cpu);

/*
 * Linux before 6.12 exchanges the events of threads that have the same by inheritance
 * (kernel/events/core.c, perf_event_context_sched_out()). It still accounts their registers to the
 * threads that they were opened for. When one of the two ends, the other's registers count as free.
 * An opener that then exceeds the real number is given an event that never fires. The kernel does
 * not exchange events that report counts by thread: PERF_SAMPLE_READ, which newer kernels allow
 * here.
 *
 * Whether this kernel does.
 */
int instance_keeps_place(void);

/* Whether the kernel will take it. 0, or -EINVAL with words. */
int perf_source_check(const struct event_source *source, unsigned int flags, struct detail detail);

/*
 * Room for `count` descriptors more: the soft limit raised, and the kernel's table made large
 * enough in one step. 0, or -WM_E_NO_DESCRIPTORS with words. Any thread may call this and the next.
 */
int perf_descriptors_need(size_t count, struct detail detail);

/* Set the soft limit to the hard one. 0, also where it is that already; or -errno. */
int perf_descriptors_raise(void);

#endif
