/* SPDX-License-Identifier: MIT */
/* A process's watches as their own parts see them. */
#ifndef SESSION_WATCH_WATCHING_OWN_H
#define SESSION_WATCH_WATCHING_OWN_H

#include "session/event/object.h"
#include "session/loaded.h"
#include "session/process.h"
#include "session/watch/ask.h"
#include "session/watch/thread.h"
#include "session/watch/watching.h"

/* One debug register's worth. */
struct watched {
	size_t spec;
	uint64_t address;
	uint32_t number; /* of its row */
	uint8_t bytes;
};

/* What ends them apart from others: the library that they lie in, the thread whose they are. */
struct watch_bond {
	uint64_t module; /* its base; 0: none that could go */
	struct thread_owner owner;
};

/* One event object's, of one process: what stands and falls together. Pieces are in the order of the object's sources. */
struct watching {
	struct watching *next;
	struct watch_bond bond;
	struct event_object *object;
	struct watch_table *table; /* the process's */
	pid_t pid;
	uint32_t magic;
	unsigned int count;
	struct watched all[EVENT_SOURCES_MAX];
	/* as the agent was asked, for children that are forked; NULL: of no spec's first piece */
	struct asked_watch *asked[EVENT_SOURCES_MAX];
};

/* A pass over one process's expressions. */
struct finding {
	struct wm_session *session;
	struct process *process;
	struct watching *fresh; /* those of this pass */
	struct loaded_list list;
	struct code_module **modules; /* the program's own: without the agent */
	size_t module_count;
	struct asked_watch asked;
	struct watch_bond bond; /* of what was asked */
	/* which are wanted; what is no place in the process then is no error, but noted */
	int (*wants)(const struct finding *finding, size_t spec);
	const char *came; /* the path of a module that has come */
	const struct process *parent;
};

/* Of the session's specs, what the process has of it. */
int watching_has(const struct process *process, const struct watching *fresh, size_t spec);

/* Ask the agent for what stands in finding->asked. */
int watching_ask(struct finding *finding, size_t spec);

/*
 * One more pass: as watching_arm(), but only of specs that are wanted, and where some are no place in the process it is not
 * watched for these. What fails is told in the session's detail, and none of this pass's is armed.
 */
int watching_pass(struct finding *finding);

/* End this one: counted, closed. It is freed. */
void watching_end_one(struct wm_session *session, struct process *process,
		      struct watching *watching, int why);

#endif
