/* SPDX-License-Identifier: MIT */
/*
 * Local variables of one process, the outside part (abi/frame.h). The session arms one breakpoint
 * at each function's first instruction, and parked watches for as many frames as it has debug
 * registers for. A thread of the tool moves these to frames as they begin.
 *
 *	locals_want()	note one variable; sends nothing
 *	locals_ask()	all are known: send the requests to the agent
 *	locals_arm()	the agent's table is mapped: open the kernel's events
 *	locals_quiet()	no more hits; then count, close
 *
 * Only the session's own thread calls these.
 */
#ifndef RECORD_WATCH_LOCALS_H
#define RECORD_WATCH_LOCALS_H

#include "record/watch/ask.h"
#include "record/watch/watches.h"
#include "target/process/target.h"

#include <stdint.h>
#include <sys/types.h>

struct locals;
struct ledger;
struct finding;
struct process;
struct wm_session;

/*
 * Add a variable of a frame: `place` is WATCH_IN_FRAME. Returns 0, -ENOMEM, -WM_E_WATCH_LARGE, or
 * an error of ask_make().
 */
int locals_want(struct locals **locals, size_t spec, const char *text,
		const struct watch_expr *expr, const struct watch_place *place,
		struct watch_trouble *trouble);

/*
 * Send the requests for all variables of a pass, finding->locals. `taken`: debug registers that the
 * session's other watches take. Returns 0; -WM_E_WATCH_LARGE if there are too few for one frame of
 * each variable; or an error of process_request().
 */
int locals_ask(struct finding *finding, unsigned int taken);

/*
 * The program ran before: assign watches to the frames that exist now, the innermost of each thread
 * first. Stops each thread for a moment. Call it after locals_ask(). Returns 0, -ENOMEM, or an
 * error of process_request().
 */
int locals_ask_living(struct finding *finding);

/*
 * Arm everything, as perf_object_arm() does. Fewer frames than planned may be armed, but at least
 * one of each variable. After an error, call locals_quiet() and locals_release().
 */
int locals_arm(struct locals *locals, pid_t pid, struct watch_table *table, struct ledger *ledger,
	       struct detail words);

/* Stop the thread, count no more hits, release the threads that wait. NULL is allowed. */
void locals_quiet(struct locals *locals);

/* Whether a spec is one of these variables. NULL is allowed. */
int locals_has(const struct locals *locals, size_t spec);

/* Have the agent drop these watches, if it is still connected. NULL is allowed. */
void locals_unask(struct locals *locals, struct process *process);

/* End them: stop, count, close, and free `locals`. NULL is allowed. */
void locals_end(struct locals *locals, struct wm_session *session, struct process *process,
		int why);

/* A library was unloaded: report its variables as lost. NULL is allowed. */
void locals_module_gone(struct locals *locals, struct wm_session *session, uint64_t base);

/* The debug registers that they take, and their row numbers, one bit each. NULL is allowed. */
unsigned int locals_registers(const struct locals *locals);
uint64_t locals_numbers(const struct locals *locals);

/* A process has this variable armed: note it in *result. */
void locals_describe(const struct locals *locals, size_t spec, struct watched_spec *result);

/* Close and free all. NULL is allowed. */
void locals_release(struct locals *locals);

#endif
