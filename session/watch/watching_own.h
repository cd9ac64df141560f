/* SPDX-License-Identifier: MIT */
/* A process's watches as their own parts see them. */
#ifndef SESSION_WATCH_WATCHING_OWN_H
#define SESSION_WATCH_WATCHING_OWN_H

#include "perf/object.h"
#include "process/loaded.h"
#include "session/process.h"
#include "session/watch/ask.h"
#include "session/watch/follow.h"
#include "session/watch/locals.h"
#include "session/watch/sharing.h"
#include "session/watch/thread.h"
#include "session/watch/watching.h"

struct changing;

/* One debug register's worth. */
struct watched {
	size_t spec;
	uint64_t address;
	uint32_t number; /* of its row */
	uint8_t bytes;
	uint8_t is_pointer; /* on the way to a value that is followed */
	uint8_t since;	    /* the object's generation when it came */
	uint64_t before; /* of the kernel's count of its source, what is another's, who was there before */
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
	uint32_t magic; /* 0: from outside, without signals */
	uint8_t set;	/* its number in the process, for the agent */
	unsigned int count;
	struct watched all[EVENT_SOURCES_MAX];
	/* as the agent was asked, for children that are forked; NULL: of no spec's first piece */
	struct asked_watch *asked[EVENT_SOURCES_MAX];
	struct changing *changing; /* while it is changed */
	int is_gone;		   /* its library went meanwhile */
	struct sharing sharing;
	struct follow_plan plan;
	struct follow *follow; /* of a plan, once the table is there */
};

/* A pass over one process's expressions. */
struct finding {
	struct wm_session *session;
	struct process *process;
	struct watching *fresh; /* those of this pass */
	struct locals *locals;	/* likewise; NULL: there are none */
	struct loaded_list list;
	struct code_module **modules; /* the program's own: without the agent */
	size_t module_count;
	struct asked_watch asked;
	struct watch_bond bond;	 /* of what was asked */
	struct follow_plan plan; /* likewise */
	unsigned int given_back; /* registers that it takes over */
	const struct spec *late; /* a local variable that others' frames left no register for; NULL */
	/* which are wanted; what is no place in the process then is no error, but noted */
	int (*wants)(const struct finding *finding, size_t spec);
	const char *came; /* the path of a module that has come */
	struct code_aliases came_aliases;
	const struct process *parent;
};

/* Of the session's specs, what the process has of it, in that pass or from before. */
int finding_has(const struct finding *finding, size_t spec);
int watching_has(const struct process *process, size_t spec);

/* Look at what the process has loaded. finding_close() in any case. 0 or an error, with the session's detail. */
int finding_open(struct finding *finding);
void finding_close(struct finding *finding);

/*
 * Give the session the modules that the process had before its agent told of all that come: whoever wrote may be in any. Between open and close;
 * what was told before is not told again. 0 or an error.
 */
int finding_tell_modules(const struct finding *finding);

/* finding_open(), and ask for all that is wanted. 0 or an error, with the session's detail. */
int finding_all(struct finding *finding);

/*
 * Where an expression's value lies in the process, and in finding->asked what is asked of the agent for it. 0; 1: in this process nothing; or an
 * error, with the session's detail.
 */
int finding_place(struct finding *finding, const struct spec *spec, struct watched_spec *result);

/* Ask for one piece of it, under that number and as an event of another's; until the agent has answered all. 0 or an error. */
int finding_ask(struct finding *finding, size_t spec, unsigned int piece, uint8_t set,
		uint32_t number, uint32_t event);
int finding_wait(struct finding *finding);

/* A row's number that nobody has; the row is cleared. */
uint32_t finding_number(const struct finding *finding);

/* What the kernel is asked for a piece. */
struct event_source watched_source(const struct watching *watching, const struct watched *one,
				   enum watch_kind kind, const char *text);

/* What stands in memory is what was there before the next hit. */
void watched_value(const struct watching *watching, const struct watched *one);

/* Add what a piece came to: as its row tells, with `hits` as the kernel's count; of a source, with the kernel's count as it is now. */
void watched_add(const struct watching *watching, const struct watched *one, uint64_t hits,
		 struct watch_counts *to);
void watched_count(const struct watching *watching, unsigned int source, struct watch_counts *to);

/* Whether every hit that the kernel has counted has come to the handler. */
int watching_is_told(const struct watching *watching);

/* The session's results of a spec, made where there are none. NULL: no memory. */
struct watched_spec *watched_result(struct wm_session *session, size_t spec);

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
