/* SPDX-License-Identifier: MIT */
/*
 * Local variables of one process, outside (abi/frame.h): one breakpoint at each function's first instruction, and parked
 * watches for as many frames as there are debug registers for. A thread of ours gives those to frames as they begin.
 *
 *	locals_want()	each variable; nothing is asked of anybody
 *	locals_ask()	the agent, when all are known
 *	locals_arm()	its table is there: the kernel
 *	locals_quiet()	quiet, counted, closed
 *
 * By the session's own thread, all of them.
 */
#ifndef SESSION_WATCH_LOCALS_H
#define SESSION_WATCH_LOCALS_H

#include "session/target.h"
#include "session/watch/ask.h"
#include "session/watch/watches.h"

#include <stdint.h>
#include <sys/types.h>

struct locals;
struct ledger;
struct code_module;
struct process;
struct wm_session;

/* Numbers that its watches have in the table. */
#define LOCALS_FIRST_NUMBER 16

/* A variable of a frame was found: `place` is WATCH_IN_FRAME. 0; -ENOMEM; -WM_E_WATCH_LARGE and as ask_make(). */
int locals_want(struct locals **locals, size_t spec, const char *text,
		const struct watch_expr *expr, const struct watch_place *place,
		struct watch_trouble *trouble);

/*
 * `taken`: debug registers that other watches of the session take. 0; -WM_E_WATCH_LARGE: there are too few for one frame of
 * each; as process_request(). *is_asked: the agent was asked for some.
 */
int locals_ask(struct locals *locals, struct wm_session *session, struct process *process,
	       unsigned int taken, uint32_t magic, int *is_asked);

/*
 * Of a program that ran before: its frames that live, the innermost of each thread first, are to be given what they are watched
 * by. Stops each thread for a moment. Behind locals_ask(). As process_request(); -ENOMEM.
 */
int locals_ask_living(struct locals *locals, struct process *process,
		      struct code_module *const *modules, size_t count);

/* As event_object_arm(); what stands then is one breakpoint for each variable. Nothing is left after an error. */
int locals_arm(struct locals *locals, pid_t pid, struct watch_table *table, struct ledger *ledger,
	       struct detail words);

/* No frame is given any more, and no hit counted by the kernel; whoever waits goes on. NULL is allowed. */
void locals_quiet(struct locals *locals);

/* Whether a spec is one of these. NULL is allowed. */
int locals_has(const struct locals *locals, size_t spec);

/* What the kernel has counted for a spec's variable, what the agent did; added. NULL is allowed. */
void locals_count(struct locals *locals, size_t spec, struct watch_counts *counts);

/* One that it has was armed in a process. */
void locals_describe(const struct locals *locals, size_t spec, struct watched_spec *result);

/* All is closed. NULL is allowed. */
void locals_release(struct locals *locals);

#endif
