/* SPDX-License-Identifier: MIT */
/* Shared by kernel_events.c, which has the life of the kernel's events, and kernel_write.c. */
#ifndef RECORD_KERNEL_KERNEL_OWN_H
#define RECORD_KERNEL_KERNEL_OWN_H

#include "record/drain/own_store.h"
#include "record/kernel/kernel_events.h"
#include "record/kernel/kernel_known.h"
#include "record/kernel/kernel_tasks.h"
#include "record/perf/counter_claims.h"
#include "record/perf/counts.h"
#include "record/perf/sampler.h"
#include "record/perf/tracepoint.h"
#include "record/spec/kernel_spec.h"

/* Ids of events. Those of the specs follow, in the order of session->specs. */
enum kernel_event {
	KERNEL_DEPART = 1,
	KERNEL_ARRIVE,
	KERNEL_WAKE,
	KERNEL_RUNNABLE,
	KERNEL_NAME,
	KERNEL_WAKER, /* the name of a thread that is not recorded and woke one */
	KERNEL_FORK,
	KERNEL_EXIT,
	KERNEL_LOST,
	KERNEL_THROTTLED,
	KERNEL_SPECS,
};

/* What the records of a sampler's event are for. */
enum kernel_role {
	KERNEL_RECORDS, /* each becomes an event */
	KERNEL_PLACES,	/* context-switches: the place of the thread that departs next */
	KERNEL_STATES,	/* sched:sched_switch: the same, and what it waits for */
};

struct kernel_source {
	enum kernel_role role;
	uint32_t id;
	const struct kernel_request *request; /* NULL: of switches */
	struct tracepoint format;
};

/* What a CPU's records have said of the thread that is about to depart. */
struct departing {
	pid_t tid;
	uint64_t place;
	char state;
	uint8_t *callers; /* CALLERS_BYTES, as the event has them; NULL: no callers are wanted */
	size_t callers_bytes;
};

/* What the events cover; zeroed without any. */
struct kernel_coverage {
	int has_switches, has_places, has_wakes; /* wakes and what a thread waits for */
	int excludes_kernel;	/* kernel.perf_event_paranoid allows to look at user space alone */
	int is_doubtful;	/* threads may be missing: their process could not be stopped */
	unsigned int cpus_back; /* how often a CPU came, or came back */
	uint64_t throttled;	/* how often the kernel stopped an event for a while */
	uint64_t unnamed;	/* processes whose functions the trace can't name: too many */
	uint64_t privileged;	/* processes that executed a program with more privileges */
};

struct kernel {
	struct wm_session *session;
	struct kernel_tasks *tasks;
	struct process *process; /* NULL: none, or it was handed over to be drained */
	struct own_store *store;
	struct sampler *sampler;
	struct sampler_event *events;
	struct kernel_source *sources; /* of each of these */
	/*
	 * Wakes. On threads the kernel would give a wake to the waker's events alone, and those by
	 * others and by interrupts would be missing. Hence they are taken on all CPUs, and those of
	 * other threads are left out.
	 */
	struct sampler *waker;
	struct sampler_request wakes_request;
	struct sampler_event wakes_event;
	struct tracepoint wakes_format;
	size_t event_count;
	uint32_t declared; /* which of enum kernel_event, by bit */
	int has_switches, has_places, has_wakes;
	unsigned int switch_wants; /* enum sampler_want, of departures: callers */
	uint32_t switch_stack_bytes;
	int has_switch_tests;		 /* each spec of switches has some */
	struct kernel_coverage coverage; /* of what ended before, with changes */
	struct count_event *count_events;
	unsigned int *count_groups; /* of each, the id of its spec's event */
	struct count_value *count_values;
	size_t count_count;
	struct counts *counts;
	struct counts_request counts_request;
	struct sampler_request request;
	uint64_t counted_ns;  /* when counts were last written */
	uint64_t followed_ns; /* when it was last looked which CPUs came and went */
	pid_t *pids;
	size_t pid_count;
	int is_begun;
	int is_changed; /* it began with a change of the running session's specs */
	/* as target_start_time(); ended_ticks: since when no spec wanted events; 0: one does */
	uint64_t begun_ticks, ended_ticks;
	int has_joined, has_joined_sampler, has_joined_counts; /* by the last kernel_join() */
	size_t claimed_before;
	struct counter_claims *claimed; /* at the begin, and by each process that came later */
	size_t claimed_count, claimed_room;
	uint64_t claim; /* of the rings' locked memory, in the session's ledger; 0: none */
	unsigned int *cpus;
	size_t cpu_count;
	int cgroup_fd;
	int is_of_cpus;
	struct departing *departing; /* by CPU, COUNT_CPUS_MAX */
	struct known_threads known;
	/*
	 * When it ended; 0: not yet. The kernel disables one event after another, so what comes
	 * later is not of all threads.
	 */
	uint64_t end_ns;
	struct known_threads named;   /* wakers that the trace names, and that are not in `known` */
	uint64_t taken, stored_bytes; /* so many since the store was last drained */
	uint64_t privileged;	      /* as in struct kernel_coverage */
};

/* Declare an event before KERNEL_SPECS, once. Returns 0 or a negative error. */
int kernel_declare(struct kernel *kernel, uint32_t id);

/* A callback of sampler_read(): write the event. `data` is the struct kernel. Returns 0. */
int kernel_take(const struct sampler_record *record, void *data);

/* The same for kernel->waker. */
int kernel_take_wake(const struct sampler_record *record, void *data);

/*
 * Write the present values of the counts; of each thread how long it has waited for a CPU, since a
 * wake may be missing: from an idle CPU the kernel reports none now and then; what all threads are
 * called at the begin; and of one process that entered later what the begin of a recording has.
 */
void kernel_write_counts(struct kernel *kernel);
void kernel_write_runnable(struct kernel *kernel);
void kernel_write_names(struct kernel *kernel);
void kernel_write_joined(struct kernel *kernel, pid_t pid);

/*
 * The text (abi/site.h) and types of an event. `request` is NULL for those before KERNEL_SPECS; of
 * these, departures may have callers. Returns 0 or -E2BIG.
 */
int kernel_event_text(uint32_t id, const struct kernel_request *request,
		      const struct tracepoint *format, int has_callers, char *text, size_t bytes,
		      uint8_t types[16]);

#endif
