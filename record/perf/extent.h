/* SPDX-License-Identifier: MIT */
/*
 * The threads and CPUs of a scope, and the events that are open on them: which threads there are,
 * also of processes that start others meanwhile; CPUs that come and go. Which events these are is
 * the user's: counts.c, sampler.c and object.c.
 */
#ifndef RECORD_PERF_EXTENT_H
#define RECORD_PERF_EXTENT_H

#include "record/perf/count_event.h"
#include "record/perf/instance.h"
#include "target/process/target.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A CPU that was ever online; of threads: one that came later (way->late). */
struct place {
	int cpu;
	int error; /* why it is not covered; -ENODEV: it is offline */
	/* when it was last known to be covered, or offline; and its first event's time then */
	uint64_t known_ns, enabled_ns;
	int is_covered;
};

/*
 * Between these two a CPU may have run without the events: from when it was last known to have
 * them, or to be offline, until it had them again, or until all were disabled. CLOCK_MONOTONIC.
 */
struct event_uncovered {
	int cpu;
	uint64_t first_ns, last_ns;
};

struct extent;

struct extent_way {
	/*
	 * Open all events, disabled, on a thread (cpu -1: on any), a CPU (tid -1), or a thread on
	 * one CPU, and extent_add() them. 0; -ESRCH: the thread has ended; an error with words.
	 * After an error the extent closes what was added.
	 */
	int (*open)(struct extent *extent, pid_t tid, int cpu, struct detail detail);
	/* Its CPU went, or the kernel dropped it: it is about to be closed. NULL is allowed. */
	void (*leave)(struct extent *extent, const struct instance *instance);
	/*
	 * Of threads whose events are of one CPU each; NULL: they are not. Whether they lack events
	 * on a CPU; open them, enabled; *open_ns: since when. 0, -errno.
	 */
	int (*lacks)(struct extent *extent, unsigned int cpu);
	int (*late)(struct extent *extent, unsigned int cpu, uint64_t *open_ns,
		    struct detail detail);
};

/* When processes are stopped, so that each thread has each event once. */
enum extent_stop {
	EXTENT_STOP_LATE,  /* if one starts or ends threads meanwhile */
	EXTENT_STOP_FIRST, /* before any is opened */
	EXTENT_STOP_NEVER,
};

struct extent {
	const struct extent_way *way;
	const pid_t *ids; /* of processes, or threads; NULL: CPUs. Those opened last */
	size_t id_count;
	int are_threads;
	enum extent_stop stop;
	const unsigned int *cpus; /* NULL: all that are online */
	size_t cpu_count;
	int cgroup_fd; /* -1: none */
	size_t needs;  /* descriptors, for each thread or CPU */

	struct instance *opened;
	size_t count, room;
	size_t joined_from; /* those that extent_join() opened last */
	struct place *places;
	size_t place_count, place_room;
	struct event_uncovered *uncovered; /* in the order in which they ended */
	size_t uncovered_count, uncovered_room;
	struct stop **stops; /* one for each process until extent_resume(); NULL: none */
	unsigned int thread_count, cpus_back;
	uint64_t begun_ns, followed_ns; /* enabled; when it was last looked which CPUs are online */
	int is_doubtful, is_enabled;
};

/* Room first, so that extent_add() can't fail. 0, -ENOMEM. */
int extent_reserve(struct extent *extent, size_t more);
void extent_add(struct extent *extent, const struct instance *instance);

/* Its CPUs that are online; free() *cpus. 0; -ENODEV: one that was asked for is not; -errno. */
int extent_cpus(const struct extent *extent, unsigned int **cpus, size_t *count,
		struct detail detail);

/* Descriptors for its threads or CPUs of now; whether it can have them, and `more`. */
size_t extent_wanted(const struct extent *extent);
int extent_need(const struct extent *extent, size_t more, struct detail detail);

/*
 * Open all, disabled, each once on each thread: if threads started or ended meanwhile, open all
 * again. Processes that were stopped for that are until extent_resume(). Where they can't be
 * stopped, and keep starting threads: is_doubtful. 0, or an error with words.
 */
int extent_open(struct extent *extent, struct detail detail);

/* May be repeated. */
void extent_enable(struct extent *extent);

/*
 * Stop its processes until extent_resume(), if they may be, and can be. 0, -ENOMEM, -EAGAIN.
 */
int extent_stop(struct extent *extent);
int extent_is_stopped(const struct extent *extent); /* the first one */
void extent_resume(struct extent *extent);

/* Whether these were, and are, all threads of the process. */
int extent_threads_are(pid_t pid, const pid_t *tids, int count);

/*
 * One more process, to which `ids` refers from here on; extent_enable() follows. 0, or an error
 * with words, and nothing is open on it. extent_part() closes what was opened on the last one.
 */
int extent_join(struct extent *extent, const pid_t *pid, struct detail detail);
void extent_part(struct extent *extent);

void extent_disable(struct extent *extent);

/*
 * CPUs go and come. The kernel drops the events of a CPU silently when it goes offline, also for a
 * suspended machine. Open and enable the events on those that came; the time without is noted. A
 * CPU that can't have them now is no error: the next look tries again. Some 10 us a CPU, and an
 * interrupt. 0, -ENOMEM, or -errno where the list of CPUs can't be read.
 */
int extent_follow(struct extent *extent, struct detail detail);

/* Before extent_disable(): note also the CPUs that have none to the end. */
void extent_follow_end(struct extent *extent);

/* Whether some CPU that was online at the last look has none of the events. */
int extent_is_lacking(const struct extent *extent);

/* NULL: the CPU has none. */
struct place *extent_place(const struct extent *extent, int cpu);

/*
 * Whether the CPU's events are in the kernel's hands, or went when it went offline; how long they
 * were enabled.
 */
int extent_place_lives(const struct extent *extent, int cpu, uint64_t *enabled_ns);

/* Close what was opened from this one on. */
void extent_close_from(struct extent *extent, size_t first);

/* Close all events, let stopped processes run. It may be opened again; extent_release() ends it. */
void extent_close(struct extent *extent);
void extent_release(struct extent *extent);

/*
 * Why the kernel refused an event, in words; has_kernel: it was to see the kernel's part. Returns
 * the error.
 */
int extent_refused(const struct extent *extent, const struct count_event *event, int has_kernel,
		   pid_t tid, int cpu, int error, struct detail detail);

#endif
