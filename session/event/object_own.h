/* SPDX-License-Identifier: MIT */
/* An event object as its own parts see it: object.c has its life, arm.c and threads.c open, modify.c changes. */
#ifndef SESSION_EVENT_OBJECT_OWN_H
#define SESSION_EVENT_OBJECT_OWN_H

#include "session/event/instance.h"
#include "session/event/object.h"
#include "session/event/rings.h"

#define WHAT_BYTES 128

struct event_object {
	struct event_request request; /* its arrays are ours */
	struct event_source sources[EVENT_SOURCES_MAX];
	char what[EVENT_SOURCES_MAX][WHAT_BYTES];
	enum event_state state;
	uint8_t generation;
	uint8_t was_stopped;
	uint8_t is_grouped, is_exchanged;
	uint64_t armed_ns, disarmed_ns;
	uint64_t program; /* program_id() when it was armed */

	struct instance *instances; /* groups, each behind its leader */
	size_t count, room;
	unsigned int groups;
	pid_t *known; /* the threads that were seen while arming, sorted */
	size_t known_count, known_room;
	unsigned int rounds, doubtful;

	uint64_t hits[EVENT_SOURCES_MAX]; /* once disarmed */
	uint64_t strays[EVENT_SOURCES_MAX];
	struct rings rings;

	uint64_t *claims; /* a row for each source, or for each on each CPU; 0: none */
	size_t claim_count;
	struct instance refused; /* that there was no register for */
};

struct stop;

static inline int object_is_threads(const struct event_object *object)
{
	return object->request.scope == EVENT_THREAD || object->request.scope == EVENT_PROCESS;
}

/* Whether what a thread starts has its events. */
static inline int object_inherits(const struct event_object *object)
{
	return object->request.scope == EVENT_PROCESS || object->request.flags & EVENT_CHILDREN;
}

uint64_t object_now_ns(void);
struct instance_form object_form(const struct event_object *object);

/* Copy a source into its place; its `what` stays where the new one has none. */
void object_source_set(struct event_object *object, unsigned int source,
		       const struct event_source *to);

/*
 * Open sources from `first` on, as a group unless the object's threads run, of a thread (cpu -1), of a CPU (tid -1), or,
 * with rings, of a thread on one CPU; with cpu -1 of a thread on each. 0, also where the thread has ended:
 * *is_ended then; or what instance_open() said, and words. All of it that was open is closed again.
 */
int object_open_group(struct event_object *object, pid_t tid, int cpu, unsigned int first,
		      uint8_t round, int *is_ended, struct detail detail);

/* Close all that is open; the counts are lost. */
void object_close(struct event_object *object);

/* All leaders. Also those that inherited. */
void object_enable(const struct event_object *object);

/*
 * Stop the process, if it may be stopped. 0, *stop NULL where it can't; -WM_E_GONE, -ENOMEM, -EAGAIN.
 */
int object_stop(const struct event_object *object, struct stop **stop);

/*
 * Open all threads of the process. All of them are stopped, so none starts meanwhile. 0, or an error with words.
 */
int object_open_stopped(struct event_object *object, struct detail detail);

/* The same while they run, in rounds; also once more, for those that have come since. */
int object_open_rounds(struct event_object *object, struct detail detail);

/* Whether there are threads that were not seen before; they are taken down. 0 or 1, or -errno. */
int object_has_newcomers(struct event_object *object);

/* Whether the thread was seen. */
int object_knows(const struct event_object *object, pid_t tid);

/* What an error of instance_open() means, with words: the error to be returned. */
int object_refused(struct event_object *object, const struct instance *instance, int error,
		   struct detail detail);

/*
 * The ledger's rows for what is about to be opened; as opened; for other sources; gone. Without a ledger these do
 * nothing. 0 or -ENOMEM.
 */
int claims_write(struct event_object *object);
void claims_confirm(struct event_object *object);
void claims_change(struct event_object *object);
void claims_remove(struct event_object *object);

/* Who holds what was refused, added to the words. It looks through all processes: not while one is stopped. */
void claims_name_holder(const struct event_object *object, struct detail detail);

/*
 * What stays while a process runs one program, as far as it is shown: where its stack began, and its file. A first
 * thread that has ended shows neither, but then another program can't have come.
 */
uint64_t program_id(pid_t pid);

/* The CPUs that are online, as "0-3,8"; free() *cpus. 0, -errno. */
int cpus_parse(const char *text, unsigned int **cpus, size_t *count);
int cpus_online(unsigned int **cpus, size_t *count);

/*
 * Room for `count` descriptors more: the soft limit raised, and the kernel's table made large enough in one step. 0, or
 * -WM_E_EVENT_DESCRIPTORS with words.
 */
int descriptors_need(size_t count, struct detail detail);

/* The soft limit to the hard one; whether that allows more than before. */
int descriptors_raise(void);

#endif
