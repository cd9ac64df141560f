/* SPDX-License-Identifier: MIT */
/*
 * An event object is one request over one scope: the same few kernel events on every thread of a
 * process, on one thread, or on CPUs. It owns the descriptors; closing them is all that disarming
 * takes, so the end of this process, by whatever means, disarms everything. (A process that it
 * forked, and that executes nothing, has them too, and must close them.)
 *
 * Arming is all or nothing:
 *
 *   1. stop      every thread of the process, where nothing forbids it
 *   2. open      each event on each thread, disabled, which takes what it needs from the kernel.
 *                A thread that ends meanwhile is no error
 *   3. enable    when all are open; if one could not be opened, close all. Nothing has fired
 *   4. resume
 *
 * States: preparing -> armed at the end of 3; armed -> modifying -> armed; any -> disarmed.
 *
 * Threads that start later inherit their creator's events from the kernel, without a gap. An event
 * that is also opened on such a thread would fire twice. Stopped threads start no others. Sometimes
 * the threads can't be stopped: a debugger traces the process, it is stopped already, or ptrace(2)
 * is not permitted. Then all is closed and opened again until no thread starts or ends meanwhile
 * (extent.h). A program that keeps starting threads is refused.
 *
 * One thread at a time may use an object, any thread. While it arms, no other thread of the
 * caller's may wait for just any child (target/process/stop_threads.h).
 */
#ifndef RECORD_PERF_OBJECT_H
#define RECORD_PERF_OBJECT_H

#include "record/perf/extent.h"
#include "record/perf/kernel_event.h"
#include "record/perf/rings.h"
#include "target/process/target.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct perf_object;
struct ledger;

/* A thread or a CPU of the scope that has none of the events, and why. */
struct event_missing {
	pid_t tid; /* -1: a CPU */
	int cpu;   /* -1: a thread */
	int error; /* -errno or -WM_E_... */
};

struct event_request {
	enum event_scope scope;
	unsigned int flags;	  /* of enum event_flag */
	pid_t pid;		  /* of the process; for EVENT_THREAD the thread's own number */
	const unsigned int *cpus; /* EVENT_CPUS */
	size_t cpu_count;
	const struct event_source *sources;
	unsigned int source_count; /* 1 to EVENT_SOURCES_MAX */
	/*
	 * EVENT_RINGS, of each CPU's; a power of two of pages. 0: as large as may be, up to 4 MiB
	 */
	uint32_t ring_bytes;
	/* target/claim/ledger.h: what is taken is claimed there. NULL: nowhere */
	struct ledger *ledger;
	/*
	 * Reserved by perf_object_reserve() on the same scope: arming takes its places, and
	 * disarms it; until then it must live. If arming fails, it has its places again where they
	 * can be had. NULL: none
	 */
	struct perf_object *reserved;
	/*
	 * NULL; or called when all instances are as they should be, with the program still stopped
	 * if it could be: when it is armed, before any is enabled; when it is modified, after all
	 * were changed. It says what sig_data's generation is from here on. An error of it undoes
	 * all, as one of the kernel's would.
	 */
	int (*settle)(void *data, uint8_t generation);
	void *settle_data;
};

enum event_state {
	EVENT_PREPARING,
	EVENT_ARMED,
	EVENT_MODIFYING,
	EVENT_DISARMED,
	EVENT_RESERVED,
};

/*
 * Prepare an object: what the request says is checked and copied, nothing is opened.
 *
 * Returns 0 and the object, for perf_object_release(); -EINVAL for a request that contradicts
 * itself, or, with words in detail, where the kernel would take no such breakpoint (length,
 * alignment, an address of the kernel's); -ENOMEM.
 */
int perf_object_new(struct perf_object **object, const struct event_request *request,
		    struct detail detail);

/*
 * preparing -> armed. Takes some 30 us a thread; the program is stopped for that time.
 *
 * Raises this process's soft limit of descriptors to the hard one where it has to: one is needed
 * for each source on each thread. Programs that it starts from then on inherit that limit.
 *
 * Returns 0; or, with everything closed again and the state still preparing, so that the caller may
 * retry:
 *   -WM_E_BREAKPOINT_DEAD    a trial showed that this machine's debug registers do not fire
 *   -WM_E_EVENT_TAKEN        a thread or a CPU has not enough free debug registers; detail says who
 *                            has them
 *   -WM_E_NO_DESCRIPTORS     RLIMIT_NOFILE; detail has the figures
 *   -WM_E_PERF_DENIED, -ENOSYS, -WM_E_MEMORY_LIMIT (rings)
 *   -EPERM                   another user's; detail says more
 *   -WM_E_GONE               the process or thread has ended
 *   -WM_E_STRICT             it keeps starting threads, and can't be stopped
 *   -ENOMEM, other -errno    detail has which thread or CPU, and which source
 */
int perf_object_arm(struct perf_object *object, struct detail detail);

/*
 * preparing -> reserved. Open all as perf_object_arm() does, and enable none: they keep their
 * places in the kernel, and never fire. Such an object can be handed to another, or disarmed.
 * Returns as perf_object_arm().
 */
int perf_object_reserve(struct perf_object *object, struct detail detail);

/*
 * Whether a reserved object has the places that a request needs: 0, or -EINVAL with words. All
 * places are one scope's.
 */
int perf_object_reserves(const struct perf_object *reserved, const struct event_request *request,
			 struct detail detail);

/* What a modify did. Times are of CLOCK_MONOTONIC. */
struct event_gap {
	/*
	 * Between these two, some threads had the old watch, some the new one, and each had none
	 * for a moment: hits may have been lost. The same where the program stood still meanwhile:
	 * nothing was lost then.
	 */
	uint64_t first_ns, last_ns;
	uint8_t was_stopped; /* the program, all the time */
	/* what sig_data has from now on; of a modify that failed, the old one's */
	uint8_t generation;
};

enum event_modify {
	EVENT_MODIFY_RUNNING, /* threads run on; hits in the gap may be lost */
	EVENT_MODIFY_STOPPED, /* they are stopped where that can be done */
};

/*
 * armed -> modifying -> armed. Give every instance, also inherited ones, new sources: as many as
 * there were, in the same order. Address, bytes, kind and sig_data may differ.
 *
 * Returns 0; or an error with the old sources whole everywhere: as perf_object_new() for an error
 * found before anything was touched, -errno of the kernel's. If the old ones could not be put back,
 * which nothing known can cause, -WM_E_EVENT_TORN: the object is disarmed then. gap is filled in
 * either way, and may be NULL.
 */
int perf_object_modify(struct perf_object *object, const struct event_source *sources,
		       enum event_modify how, struct event_gap *gap, struct detail detail);

/*
 * CPUs go and come. The kernel keeps events of EVENT_CPUS and EVENT_SYSTEM only as long as their
 * CPU is online. It drops them silently when the CPU goes, also for a suspended machine. So call
 * this now and then, as once a second: CPUs that came back, and with EVENT_SYSTEM those that came
 * for the first time, have the events from here on. Their earlier counts are kept.
 * perf_object_uncovered() reports the time without events.
 *
 * The kernel itself follows threads. They need this call only with EVENT_RINGS, see there: for a
 * new CPU it stops the process for a moment. Where it can't be stopped, and threads inherit, such a
 * CPU's hits stay unseen, and are reported.
 *
 * Only when armed, else -EINVAL. Returns 0, also where a CPU can't have them now: coverage says
 * why, and the next look tries again; -ENOMEM, or -errno where the online CPUs are unknown. Some 10
 * us a CPU.
 */
int perf_object_follow(struct perf_object *object, struct detail detail);

/* Armed with EVENT_NO_STOP as it stood still already: from here on its process may be stopped. */
void perf_object_let_stop(struct perf_object *object);

/* In the order in which they ended. Valid until the object is followed, disarmed or released. */
const struct event_uncovered *perf_object_uncovered(const struct perf_object *object,
						    size_t *count);

/*
 * All events stop counting and reporting, and stay open: pending records may still come, and the
 * counts stay unchanged. From armed; perf_object_disarm() is next. Times of hits after it are
 * outside of [armed, disarmed].
 */
void perf_object_quiet(struct perf_object *object);

/*
 * Any state -> disarmed, permanently. The counts are kept: read last before closing. Never fails.
 */
void perf_object_disarm(struct perf_object *object);

/* Disarm and free. NULL is allowed. */
void perf_object_release(struct perf_object *object);

/*
 * In a child that the owner forked: close the child's descriptors, and free. Armed events stay
 * armed, as the owner has them too. NULL is allowed.
 */
void perf_object_leave(struct perf_object *object);

enum event_state perf_object_state(const struct perf_object *object);

/*
 * When it was armed and disarmed, CLOCK_MONOTONIC; 0 when it was not. Hits outside of that time are
 * not reported.
 */
uint64_t perf_object_armed_ns(const struct perf_object *object);
uint64_t perf_object_disarmed_ns(const struct perf_object *object);

/* How often it was modified, modulo 256. */
uint8_t perf_object_generation(const struct perf_object *object);

/*
 * The sources as they are now, without the generation in sig_data. Valid until the next
 * modify.
 */
const struct event_source *perf_object_sources(const struct perf_object *object);

/*
 * How often a source was hit since it was armed, as the kernel counted: over all threads, including
 * ended and inheriting ones, over all generations. Running threads keep counting meanwhile. 0 or
 * -errno. Some 1 us a thread.
 */
int perf_object_count(struct perf_object *object, unsigned int source, uint64_t *hits);

/* How many of a source's kernel events are starved, as struct event_coverage has it. */
unsigned int perf_object_starved(const struct perf_object *object, unsigned int source);

struct event_coverage {
	/* Threads or CPUs: in the scope now; of these, armed by our own open; by inheritance. */
	unsigned int wanted, opened, inherited;
	unsigned int ended; /* were armed, and are over */
	/*
	 * Events that the kernel took, but had no register for when their threads ran: they may
	 * have missed hits. It should not happen; instance_keeps_place() says how it can. Not
	 * counted for threads with EVENT_RINGS.
	 */
	unsigned int starved;
	uint8_t was_stopped; /* while it was armed */
	uint8_t sees_kernel; /* EVENT_KERNEL */
	/*
	 * Those of the scope that have none: CPUs that came later, are offline, or were and were
	 * not followed since; a program that another took the place of. With EVENT_RINGS, CPUs on
	 * which threads are not seen. perf_coverage_release()
	 */
	struct event_missing *missing;
	unsigned int missing_count, missing_room;
};

/* Look at the scope as it is now. 0, -WM_E_GONE, -ENOMEM. */
int perf_object_coverage(struct perf_object *object, struct event_coverage *coverage);
void perf_coverage_release(struct event_coverage *coverage);

/*
 * Hand over what is in the rings, in the order of time as far as it is settled: what came within
 * the last moment may be kept for the next call, unless is_last. take() must not touch the object;
 * anything but 0 that it returns ends the call and is returned. Only hits from [armed, disarmed]
 * are handed over.
 */
int perf_object_drain(struct perf_object *object, int is_last,
		      int (*take)(void *data, const struct event_record *record), void *data);

/*
 * Hits that found a ring full: those that the kernel has reported; exact once all was disarmed and
 * drained. And hits that were dropped as they were outside of armed: all, with what made no sense;
 * and those of one source.
 */
uint64_t perf_object_lost(const struct perf_object *object);

/*
 * Children that its process started while it was armed, as far as was drained; of EVENT_PROCESS
 * with EVENT_RINGS. They are not in the scope.
 */
uint64_t perf_object_forks(const struct perf_object *object);
uint64_t perf_object_stray(const struct perf_object *object);
uint64_t perf_object_stray_of(const struct perf_object *object, unsigned int source);

/* ---- what it is made of: for object.c, refused.c and tests ---- */

#define EVENT_WHAT_BYTES 128

struct perf_object {
	struct event_request request; /* its arrays are ours */
	struct event_source sources[EVENT_SOURCES_MAX];
	char what[EVENT_SOURCES_MAX][EVENT_WHAT_BYTES];
	enum event_state state;
	uint8_t generation;
	uint8_t was_stopped;
	uint8_t is_exchanged;
	uint64_t armed_ns, disarmed_ns;
	uint64_t program; /* program_id() when it was armed */

	struct extent extent;
	uint64_t hits[EVENT_SOURCES_MAX]; /* of events that are closed */
	uint64_t strays[EVENT_SOURCES_MAX];
	uint64_t taken, stray, forks; /* hits, handed over and dropped; processes that started */
	struct rings rings;

	uint64_t *claims; /* NULL: none */
	size_t claim_count, claim_sources;
	unsigned int *claim_cpus; /* whose registers these are; NULL: threads' */

	struct instance refused; /* that there was no register for */
	uint64_t refused_taken;	 /* registers taken there in all; 0: not known */
};

/* What an error of instance_open() means, with words: the error to be returned. */
int perf_object_refused(struct perf_object *object, const struct instance *instance, int error,
			struct detail detail);

/* What arming needs beside registers, as far as it is known before. */
struct event_needs {
	size_t descriptors, rings;
	uint32_t ring_bytes; /* of each; 0: as large as may be */
};

/*
 * The ledger's rows for what is about to be opened; those of one CPU more, unless it has them, held
 * at once; for other sources. Without a ledger these do nothing. 0, -ENOMEM; the first also
 * -WM_E_LIMIT with words (target/claim/limits.h).
 */
int object_claims_write(struct perf_object *object, const struct event_needs *needs,
			struct detail detail);
int object_claims_add(struct perf_object *object, unsigned int cpu);
void object_claims_change(struct perf_object *object);

#endif
