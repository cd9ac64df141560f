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

/* Now, as target_start_time() has it. */
uint64_t kernel_start_ticks(void);

/*
 * Claim a counter on each process, or on each of the session's CPUs, for each event that the specs
 * name. Kernel breakpoints take none. 0, or an error with the session's detail.
 */
int kernel_claim_counters(struct wm_session *session, const pid_t *pids, size_t pid_count);

/* Whether a spec of that kind is there. */
int kernel_has_kind(const struct wm_session *session, enum kernel_kind kind);

/* Fill in kernel->events and sources: of switches, in one way. Whether that is permitted. */
int kernel_ask_switches(struct kernel *kernel, int way);

/* The same of the specs, and the counts. 0, or an error with the session's detail. */
int kernel_ask_requests(struct wm_session *session, struct kernel *kernel);

/* Fields of an event, one behind the other. */
struct kernel_fields {
	uint8_t bytes[OWN_STORE_FIELDS_MAX];
	size_t count;
};

void kernel_put_thread(struct kernel_fields *fields, pid_t pid, pid_t tid);
void kernel_put_u64(struct kernel_fields *fields, uint64_t value);

/* A string of at most `bytes`, which need have no NUL. */
void kernel_put_string(struct kernel_fields *fields, const char *text, size_t bytes);

/* Write an event, on a CPU or with cpu -1 on none. */
void kernel_write(struct kernel *kernel, int cpu, uint64_t time_ns, uint32_t id,
		  const struct kernel_fields *fields);

/* Declare an event before KERNEL_SPECS, once. Returns 0 or a negative error. */
int kernel_declare(struct kernel *kernel, uint32_t id);

/* A callback of sampler_read(): write the event. `data` is the struct kernel. Returns 0. */
int kernel_take(const struct sampler_record *record, void *data);

/* The same for kernel->waker. */
int kernel_take_wake(const struct sampler_record *record, void *data);

/*
 * Write the present values of the counts; of each thread how long it has waited for a CPU, since a
 * wake may be missing: from an idle CPU the kernel reports none now and then.
 */
void kernel_write_counts(struct kernel *kernel);
void kernel_write_runnable(struct kernel *kernel);

/* Write the name of a thread that woke a recorded one. */
void kernel_name_waker(struct kernel *kernel, pid_t pid, pid_t tid);

/* A thread was started, named, or has ended; what all threads are called at the begin. */
void kernel_task(struct kernel *kernel, const struct sampler_record *record);
void kernel_write_names(struct kernel *kernel);

/* Write what the begin of a recording has, of one process that entered later. */
void kernel_write_joined(struct kernel *kernel, pid_t pid);

/*
 * The text (abi/site.h) and types of an event. `source` is NULL for those before KERNEL_SPECS and
 * for counts. Returns 0 or -E2BIG.
 */
int kernel_event_text(uint32_t id, const struct kernel_request *request,
		      const struct tracepoint *format, char *text, size_t bytes, uint8_t types[16]);

#endif
