/* SPDX-License-Identifier: MIT */
/*
 * Watches that are armed after the session's start: in processes that are forked or executed, and
 * in libraries that are loaded. A child in its fork and a thread in the loader wait until then.
 *
 * A session arms one process after another, never one within the steps of another. So its other
 * parts only note what is to be done, and later_attend() does it.
 */
#ifndef SESSION_WATCH_LATER_H
#define SESSION_WATCH_LATER_H

#include "abi/watch.h"

#include <stddef.h>
#include <stdint.h>

struct locals;
struct process;
struct wm_session;

/* Of one process. Zeroed is empty. */
struct watch_state {
	struct watch_table *table;    /* mapped; NULL: none yet */
	struct watch_table **earlier; /* tables that were replaced; they stay mapped */
	size_t earlier_count, earlier_room;
	struct locals *locals; /* NULL: no local variable is watched */
	uint32_t magic;	       /* 0: not chosen yet */
	uint32_t next;	       /* the next row number to try */
	uint8_t sets;	       /* the next number of an object */
	/*
	 * a pass steps the session: if the process ends or the agent drops its watches meanwhile,
	 * note it
	 */
	int is_arming, has_ended, lost;
	int is_barred;	 /* it has loaded code of Go: nothing is armed any more */
	int has_modules; /* the session has the modules from before watching began */
	/* it is counted among the processes that continue with something unwatched */
	int is_noted;
	/* rows that no session serves any more, one bit each, reported during a pass (sharing.h) */
	uint64_t alone;
	/* to be done by later_attend(), or at the end of a pass */
	int is_new;	   /* the process is new and waits for GO */
	uint64_t *modules; /* bases of reported modules that were not answered by SEEN */
	size_t module_count, module_room;
	uint64_t *gone; /* bases of modules that were unloaded during a pass */
	size_t gone_count, gone_room;
	uint64_t looked_ns; /* when ended owner threads were last looked for */
};

/* A new process is ready. Returns 1 if later_attend() will let it go, 0 if the caller has to. */
int later_welcome(struct wm_session *session, struct process *process);

/*
 * Its agent reports a new module. Returns 1 if later_attend() will send SEEN, 0 if not, or -ENOMEM.
 */
int later_module_came(struct wm_session *session, struct process *process, uint64_t base);

/*
 * A module was unloaded: end the watches in it. Those that a pass is arming there are ended by
 * later_settle_gone(), once they are the process's. Returns 0 or -ENOMEM.
 */
int later_module_gone(struct wm_session *session, struct process *process, uint64_t base);
void later_settle_gone(struct wm_session *session, struct process *process);

/*
 * Do what was noted, unless a pass, this function, or process_pump() of the process is running.
 * Returns 0, or an error that ends the connection.
 */
int later_attend(struct wm_session *session, struct process *process);

struct finding;

/* Request the parent's watches for a forked child, at the same addresses. */
int later_take_parents(struct finding *finding);

void later_release(struct watch_state *state);

#endif
