/* SPDX-License-Identifier: MIT */
/*
 * An event object as its own parts see it: object.c has its life, coverage.c what it covers,
 * claims.c what it takes.
 */
#ifndef RECORD_PERF_OBJECT_OWN_H
#define RECORD_PERF_OBJECT_OWN_H

#include "record/perf/extent.h"
#include "record/perf/instance.h"
#include "record/perf/object.h"
#include "record/perf/rings.h"

#define WHAT_BYTES 128

struct perf_object {
	struct event_request request; /* its arrays are ours */
	struct event_source sources[EVENT_SOURCES_MAX];
	char what[EVENT_SOURCES_MAX][WHAT_BYTES];
	enum event_state state;
	uint8_t generation;
	uint8_t was_stopped;
	uint8_t is_exchanged;
	uint64_t armed_ns, disarmed_ns;
	uint64_t program; /* perf_program_id() when it was armed */

	struct extent extent;
	uint64_t hits[EVENT_SOURCES_MAX]; /* of events that are closed */
	uint64_t strays[EVENT_SOURCES_MAX];
	uint64_t taken, stray, forks; /* hits, handed over and dropped; processes that started */
	struct rings rings;

	uint64_t *claims; /* claims.c's; NULL: none */
	size_t claim_count, claim_sources;
	unsigned int *claim_cpus; /* whose registers these are; NULL: threads' */

	struct instance refused; /* that there was no register for */
	uint64_t refused_taken;	 /* registers taken there in all; 0: not known */
};

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
 * at once; as opened; for other sources; disarmed, all but the rings closed; gone. Without a ledger
 * these do nothing. 0, -ENOMEM; claims_write() also -WM_E_LIMIT with words (target/claim/limits.h).
 */
int claims_write(struct perf_object *object, const struct event_needs *needs, struct detail detail);
int claims_add(struct perf_object *object, unsigned int cpu);
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
