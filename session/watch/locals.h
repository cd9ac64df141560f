/* SPDX-License-Identifier: MIT */
/*
 * Local variables of one process, outside (abi/frame.h): one breakpoint at each function's first instruction, and parked
 * watches for as many frames as there are debug registers for. A thread of ours gives those to frames as they begin.
 *
 *	locals_want()	each variable; nothing is asked of anybody
 *	locals_ask()	the agent, when all are known
 *	locals_arm()	its table is there: the kernel
 *	locals_end()	quiet, counted, closed
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

/* Numbers that its watches have in the table. */
#define LOCALS_FIRST_NUMBER 16

/* A variable of a frame was found: `place` is WATCH_IN_FRAME. 0; -ENOMEM; -WM_E_WATCH_LARGE and as ask_make(). */
int locals_want(struct locals **locals, size_t spec, const char *text, const struct watch_expr *expr,
		const struct watch_place *place, struct watch_trouble *trouble);

/*
 * `taken`: debug registers that other watches of the session take. 0, or what ask() returned; -WM_E_WATCH_LARGE: there are
 * too few for one frame of each, `words` say more.
 */
int locals_ask(struct locals *locals, unsigned int taken, uint32_t magic,
	       int (*ask)(void *data, const struct control_watch *about, const char *text), void *data,
	       struct detail words);

/* As event_object_arm(); what stands then is one breakpoint for each variable. Nothing is left after an error. */
int locals_arm(struct locals *locals, pid_t pid, struct watch_table *table, struct ledger *ledger,
	       struct detail words);

/* No frame is given any more, and no hit counted by the kernel; whoever waits goes on. */
void locals_quiet(struct locals *locals);

/* What the kernel has counted for a spec's variable, what the agent did; added. */
void locals_count(struct locals *locals, size_t spec, struct watch_counts *counts);

/* Pieces, address and such, of a spec that is one of these. Returns 0: it is none. */
int locals_describe(const struct locals *locals, size_t spec, struct watched_spec *result);

/* All is closed. NULL is allowed. */
void locals_release(struct locals *locals);

#endif
