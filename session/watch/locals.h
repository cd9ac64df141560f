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

#include "process/target.h"
#include "session/watch/ask.h"
#include "session/watch/watches.h"

#include <stdint.h>
#include <sys/types.h>

struct locals;
struct ledger;
struct finding;
struct process;
struct wm_session;

/* A variable of a frame was found: `place` is WATCH_IN_FRAME. 0; -ENOMEM; -WM_E_WATCH_LARGE and as ask_make(). */
int locals_want(struct locals **locals, size_t spec, const char *text,
		const struct watch_expr *expr, const struct watch_place *place,
		struct watch_trouble *trouble);

/*
 * All of a pass, finding->locals. `taken`: debug registers that other watches of the session take. 0; -WM_E_WATCH_LARGE: there are
 * too few for one frame of each; as process_request().
 */
int locals_ask(struct finding *finding, unsigned int taken);

/*
 * Of a program that ran before: its frames that live, the innermost of each thread first, are to be given what they are watched
 * by. Stops each thread for a moment. Behind locals_ask(). As process_request(); -ENOMEM.
 */
int locals_ask_living(struct finding *finding);

/* As event_object_arm(); what stands then is one breakpoint for each variable. Nothing is left after an error. */
int locals_arm(struct locals *locals, pid_t pid, struct watch_table *table, struct ledger *ledger,
	       struct detail words);

/* No frame is given any more, and no hit counted by the kernel; whoever waits goes on. NULL is allowed. */
void locals_quiet(struct locals *locals);

/* Whether a spec is one of these. NULL is allowed. */
int locals_has(const struct locals *locals, size_t spec);

/* The agent is to let go of them, where it is there still. NULL is allowed. */
void locals_unask(struct locals *locals, struct process *process);

/* End them: counted, closed, let go of. They are freed. NULL is allowed. */
void locals_end(struct locals *locals, struct wm_session *session, struct process *process,
		int why);

/* A library went: its functions don't run any more. NULL is allowed. */
void locals_module_gone(struct locals *locals, struct wm_session *session, uint64_t base);

/* Debug registers, and rows' numbers, a bit each. NULL is allowed: none. */
unsigned int locals_registers(const struct locals *locals);
uint64_t locals_numbers(const struct locals *locals);

/* What the kernel has counted for a spec's variable, what the agent did; added. NULL is allowed. */
void locals_count(struct locals *locals, size_t spec, struct watch_counts *counts);

/* One that it has was armed in a process. */
void locals_describe(const struct locals *locals, size_t spec, struct watched_spec *result);

/* All is closed. NULL is allowed. */
void locals_release(struct locals *locals);

#endif
