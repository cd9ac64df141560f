/* SPDX-License-Identifier: MIT */
/* Shared by the parts that handle a process's watches. */
#ifndef RECORD_WATCH_WATCHING_OWN_H
#define RECORD_WATCH_WATCHING_OWN_H

#include "record/perf/object.h"
#include "record/session/process.h"
#include "record/watch/ask.h"
#include "record/watch/thread_variable.h"
#include "record/watch/watches.h"
#include "target/process/loaded.h"

struct follow;
struct locals;

/* One debug register's worth. */
struct watched {
	size_t spec;
	uint64_t address;
	uint32_t number; /* of its row */
	uint8_t bytes;
	uint8_t is_pointer; /* this register watches a pointer of a chain that is followed */
};

/* The events that may end a watch before others: its library is unloaded, or its thread ends. */
struct watch_bond {
	uint64_t module; /* its base; 0: none that can be unloaded */
	struct thread_owner owner;
};

/*
 * One event object of a process, whose watches are armed and ended together. Pieces are in the
 * order of the object's sources.
 */
struct watching {
	struct watching *next;
	struct watch_bond bond;
	struct perf_object *object;
	struct watch_table *table; /* the process's */
	pid_t pid;
	uint32_t magic; /* 0: from outside, without signals */
	uint8_t set;	/* its number in the process, for the agent */
	unsigned int count;
	struct watched all[EVENT_SOURCES_MAX];
	/* the requests, for forked children; set for the first piece of each spec, else NULL */
	struct asked_watch *asked[EVENT_SOURCES_MAX];
	struct follow_plan plan;
	struct follow *follow; /* with a plan, once the table is mapped; else NULL */
};

/* One pass over the expressions for one process. */
struct finding {
	struct wm_session *session;
	struct process *process;
	struct watching *fresh; /* the objects of this pass */
	struct locals *locals;	/* of this pass; NULL: none */
	struct loaded_list list;
	struct code_module **modules; /* without the agent's own module */
	size_t module_count;
	struct asked_watch asked;
	struct watch_bond bond;	 /* of `asked` */
	struct follow_plan plan; /* of `asked` */
	/* a local variable that got no register, as others' frames have them; NULL */
	const struct spec *late;
	/*
	 * which specs to arm; NULL: all. With it, a spec without a place in the process is noted,
	 * no error
	 */
	int (*wants)(const struct finding *finding, size_t spec);
	/* with `wants`: a place for this spec and for those behind it is not to be missing; NULL */
	const struct spec *must;
	const char *came; /* the path of the module that was just loaded */
	struct code_aliases came_aliases;
	const struct process *parent;
};

/* Whether a process has a spec: the first also looks at the pass, not only at what is armed. */
int watch_finding_has(const struct finding *finding, size_t spec);
int watching_has(const struct process *process, size_t spec);

/*
 * Read the modules of the process, then make requests for all wanted specs. Call
 * watch_finding_close() in any case. 0 or an error, with the session's detail.
 */
int watch_finding_all(struct finding *finding);
void watch_finding_close(struct finding *finding);

/* Wait until the agent has answered all requests. 0 or an error. */
int watch_finding_wait(struct finding *finding);

/* Request the parent's watches for a forked child, at the same addresses. 0 or an error. */
int watch_finding_ask_parents(struct finding *finding);

/* An unused row's number; clears the row. */
uint32_t watch_finding_number(const struct finding *finding);

/* Read the watched memory, and keep it as the old value of the next hit. */
void watched_value(const struct watching *watching, const struct watched *one);

/* Add a piece's counts, with the kernel's as it is now. */
void watched_count(const struct watching *watching, unsigned int source, struct watch_counts *to);

/* Whether the handler has had every hit that the kernel has counted. */
int watching_is_told(const struct watching *watching);

/* The session's results of a spec, made at the first call. NULL: no memory. */
struct watched_spec *watched_result(struct wm_session *session, size_t spec);

/* Send the agent the requests in finding->asked, and add the pieces to an object of the pass. */
int watching_ask(struct finding *finding, size_t spec);

/*
 * One pass over a process, as watching_arm() but with finding->wants: only the wanted specs, and
 * those without a place are skipped. On an error nothing of this pass is armed, and the session's
 * detail has words.
 */
int watching_pass(struct finding *finding);

/* End one object: quiet, count, close, and free it. */
void watching_end_one(struct wm_session *session, struct process *process,
		      struct watching *watching, int why);

#endif
