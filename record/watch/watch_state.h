/* SPDX-License-Identifier: MIT */
/* The state of the watches of one process, apart from the watches themselves (watching.h). */
#ifndef RECORD_WATCH_WATCH_STATE_H
#define RECORD_WATCH_WATCH_STATE_H

#include <stddef.h>
#include <stdint.h>

struct locals;
struct watch_table;

/* Zeroed is empty. */
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
	/* to be done by later_attend(), or at the end of a pass */
	int is_new;	   /* the process is new and waits for GO */
	uint64_t *modules; /* bases of reported modules that were not answered by SEEN */
	size_t module_count, module_room;
	uint64_t *gone; /* bases of modules that were unloaded during a pass */
	size_t gone_count, gone_room;
	uint64_t looked_ns; /* when ended owner threads were last looked for */
};

/*
 * Map the table that the agent sent, in place of an earlier one. The caller still owns `fd`.
 * Returns 0, -WM_E_PROTOCOL or another error.
 */
int watch_state_map(struct watch_state *state, int fd, uint64_t bytes);

/*
 * Note a module that came, for later_attend(); and one that was unloaded, for the end of the pass.
 * 0 or -ENOMEM.
 */
int watch_state_note_module(struct watch_state *state, uint64_t base);
int watch_state_note_gone(struct watch_state *state, uint64_t base);

/* Unmap and free all but `locals`. The next rows get other numbers. */
void watch_state_release(struct watch_state *state);

#endif
