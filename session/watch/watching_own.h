/* SPDX-License-Identifier: MIT */
/* One process's watches as their own parts see them: watching.c has their life, change.c changes them. */
#ifndef SESSION_WATCH_WATCHING_OWN_H
#define SESSION_WATCH_WATCHING_OWN_H

#include "session/event/object.h"
#include "session/loaded.h"
#include "session/session.h"
#include "session/watch/ask.h"
#include "session/watch/watching.h"

struct changing;

/* A piece: one debug register's. */
struct watched {
	size_t spec;
	uint64_t address;
	uint8_t bytes;
	uint8_t since;	 /* the object's generation when it came */
	uint32_t number; /* by which the agent knows it, and its row in the table */
	uint64_t before; /* of the kernel's count of its source, what is another's, who was there before */
};

/* Of one process. A piece's place in all[] is its source in the object. */
struct watching {
	struct event_object *object;
	struct watch_table *table;
	pid_t pid;
	uint32_t magic;
	unsigned int count;
	struct watched all[EVENT_SOURCES_MAX];
	int is_asked; /* the agent was */
	/* it is worked on in steps, in which the process may end or the agent let go: that is only noted */
	int is_arming;
	int has_ended;
	int lost;		   /* why */
	struct changing *changing; /* while it is changed */
	uint32_t next_number;	   /* change.c's */
};

/* A pass over one process's expressions. */
struct finding {
	struct wm_session *session;
	struct process *process;
	struct watching *watching;
	struct loaded_list list;
	struct code_module **modules; /* the program's own: without the agent */
	size_t module_count;
	unsigned int taken; /* registers, by other expressions */
	struct asked_watch asked;
};

/* Look at what the process has loaded. finding_close() in any case. 0 or an error, with the session's detail. */
int finding_open(struct finding *finding);
void finding_close(struct finding *finding);

/* Where an expression's value lies in the process, and in `asked` what is asked of the agent for it. */
int finding_place(struct finding *finding, const struct spec *spec, struct watched_spec *result);

/* Ask the agent for a piece of `asked`, whose number and whose event's are in *one and in `event`. 0, -errno. */
int finding_ask(struct finding *finding, unsigned int piece, const struct watched *one,
		uint32_t event);

/* Until the agent has answered all. 0, or why not, with the session's detail. */
int finding_wait(struct finding *finding);

/* What the kernel is asked for a piece. */
struct event_source watched_source(const struct watching *watching, const struct watched *one,
				   enum watch_kind kind, const char *text);

/* What stands in memory is what was there before the next hit. */
void watched_value(const struct watching *watching, const struct watched *one);

/* Add what a piece's row tells; `hits` as the kernel counted. */
void watched_add(const struct watching *watching, const struct watched *one, uint64_t hits,
		 struct watch_counts *to);

/* Of the spec's hits the kernel's own count, by the piece in its place. */
uint64_t watched_hits(const struct watching *watching, unsigned int source);

/* The session's results of a spec, made where there are none. NULL: no memory. */
struct watched_spec *watched_result(struct wm_session *session, size_t spec);

#endif
