/* SPDX-License-Identifier: MIT */
/*
 * An event object as its own parts see it: object.c has its life, enable.c and process_threads.c
 * open, modify.c changes.
 */
#ifndef RECORD_PERF_OBJECT_OWN_H
#define RECORD_PERF_OBJECT_OWN_H

#include "record/perf/instance.h"
#include "record/perf/object.h"
#include "record/perf/rings.h"

#define WHAT_BYTES 128

/*
 * A CPU of the scope, of objects that watch CPUs; or one that came later, on which threads' rings
 * were not.
 */
struct event_place {
	int cpu;
	int error; /* why it is not covered */
	/* when it was last known to be covered, or offline; and the events' running time then */
	uint64_t known_ns, running_ns;
	uint8_t is_covered, is_claimed;
};

struct perf_object {
	struct event_request request; /* its arrays are ours */
	struct event_source sources[EVENT_SOURCES_MAX];
	char what[EVENT_SOURCES_MAX][WHAT_BYTES];
	enum event_state state;
	uint8_t generation;
	uint8_t was_stopped;
	uint8_t is_grouped, is_exchanged;
	uint64_t armed_ns, disarmed_ns;
	uint64_t program; /* perf_program_id() when it was armed */

	struct instance *instances; /* groups, each behind its leader */
	size_t count, room;
	unsigned int groups;
	pid_t *known; /* the threads that were seen while arming, sorted */
	size_t known_count, known_room;
	unsigned int rounds, doubtful;

	uint64_t hits[EVENT_SOURCES_MAX]; /* of events that are closed */
	uint64_t strays[EVENT_SOURCES_MAX];
	struct rings rings;

	uint64_t *claims; /* claims.c's; NULL: none */
	size_t claim_count, claim_sources;
	unsigned int *claim_cpus; /* whose registers these are; NULL: threads' */
	struct event_place *places;
	size_t place_count, place_room;
	uint64_t followed_ns; /* when it was last looked which are online */
	struct event_uncovered *uncovered;
	size_t uncovered_count, uncovered_room;

	struct instance refused; /* that there was no register for */
	uint64_t refused_taken;	 /* registers taken there in all; 0: not known */
};

struct stop;

static inline int perf_object_is_threads(const struct perf_object *object)
{
	return object->request.scope == EVENT_THREAD || object->request.scope == EVENT_PROCESS;
}

/* Whether what a thread starts has its events. */
static inline int perf_object_inherits(const struct perf_object *object)
{
	return object->request.scope == EVENT_PROCESS || object->request.flags & EVENT_CHILDREN;
}

/* Registers that a claim has for this object in the ledger, until it is armed. */
static inline uint64_t perf_object_reserved(const struct perf_object *object)
{
	return object->request.reserved ? object->request.reserved->claim_sources : 0;
}

struct instance_form perf_object_form(const struct perf_object *object);

/*
 * Whether each kind of source works on this machine (target/trial/trial.h). 0 or
 * -WM_E_BREAKPOINT_DEAD, with the trial that failed in detail.
 */
int perf_sources_proven(const struct event_request *request, const struct event_source *sources,
			struct detail detail);

/* Copy a source into its place; its `what` stays where the new one has none. */
void perf_object_source_set(struct perf_object *object, unsigned int source,
			    const struct event_source *to);

/*
 * Open sources from `first` on, as a group unless the object's threads run, of a thread (cpu -1),
 * of a CPU (tid -1), or, with rings, of a thread on one CPU; with cpu -1 of a thread on each. 0,
 * also where the thread has ended: *is_ended then; or what instance_open() said, and words. All of
 * it that was open is closed again.
 */
int perf_object_open_group(struct perf_object *object, pid_t tid, int cpu, unsigned int first,
			   uint8_t round, int *is_ended, struct detail detail);

/*
 * Whether perf_event_paranoid forbids an event of a thread, or of a CPU; with the kernel's part of
 * it. 0, or -WM_E_PERF_DENIED with words.
 */
int perf_object_forbidden(int is_thread, int has_kernel, struct detail detail);

/* Close all that is open; the counts are lost. */
void perf_object_close(struct perf_object *object);

/* All leaders. Also those that inherited. */
void perf_object_enable(const struct perf_object *object);

/*
 * Stop the process, if it may be stopped. 0, *stop NULL where it can't; -WM_E_GONE, -ENOMEM,
 * -EAGAIN.
 */
int perf_object_stop(const struct perf_object *object, struct stop **stop);

/*
 * Open all threads of the process. All of them are stopped, so none starts meanwhile. 0, or an
 * error with words.
 */
int perf_object_open_stopped(struct perf_object *object, struct detail detail);

/* The same while they run, in rounds; also once more, for those that have come since. */
int perf_object_open_rounds(struct perf_object *object, struct detail detail);

/* Whether there are threads that were not seen before; they are taken down. 0 or 1, or -errno. */
int perf_object_has_newcomers(struct perf_object *object);

/* Armed, all enabled: the CPUs' places, who were online at `looked_ns`. 0, -ENOMEM. */
int perf_object_follow_begin(struct perf_object *object, uint64_t looked_ns);

/* Before disarming: report CPUs that have no events to the end as uncovered, too. */
void perf_object_follow_end(struct perf_object *object);

/* Whether some CPU that was online at the last look has none of the events. */
int perf_object_is_lacking(const struct perf_object *object);

/* NULL: the CPU has none. */
struct event_place *perf_object_place(const struct perf_object *object, int cpu);

/*
 * Whether the CPU's events are in the kernel's hands, or went when it went offline (cpu_follow.c);
 * how long they ran.
 */
int perf_object_place_lives(const struct perf_object *object, int cpu, uint64_t *running_ns);

/* What an error of instance_open() means, with words: the error to be returned. */
int perf_object_refused(struct perf_object *object, const struct instance *instance, int error,
			struct detail detail);

/* What arming needs beside registers, as far as it is known before. */
struct event_needs {
	size_t descriptors, rings;
	uint32_t ring_bytes; /* of each; 0: as large as may be */
};

/*
 * The ledger's rows for what is about to be opened; those of one CPU more, held at once; as opened;
 * for other sources; disarmed, all but the rings closed; gone. Without a ledger these do nothing.
 * 0,
 * -ENOMEM; claims_write() also -WM_E_LIMIT with words (target/claim/limits.h).
 */
int claims_write(struct perf_object *object, const struct event_needs *needs, struct detail detail);
int claims_add(struct perf_object *object, int cpu);
void claims_confirm(struct perf_object *object);
void claims_change(struct perf_object *object);
void claims_disarmed(struct perf_object *object);
void claims_remove(struct perf_object *object);

/*
 * Add the holder of what -WM_E_EVENT_TAKEN, -WM_E_NO_DESCRIPTORS or -WM_E_MEMORY_LIMIT refused to
 * the words. Searches all processes: do not call it while a process is stopped.
 */
void claims_name_holder(const struct perf_object *object, int err, struct detail detail);

/*
 * Identifies the program that a process runs, as far as it is shown: where its stack began, and its
 * file. A first thread that has ended shows neither, but then another program can't have come.
 */
uint64_t perf_program_id(pid_t pid);

#endif
