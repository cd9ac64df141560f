/* SPDX-License-Identifier: MIT */
/*
 * The bytes of jumps: compared, stored, taken away. Under the agent's lock.
 */
#ifndef INSIDE_DETOUR_SITE_H
#define INSIDE_DETOUR_SITE_H

#include "inside/detour/detour.h"
#include "inside/detour/janitor.h"

#include <stddef.h>

/* Sites of a batch, in order of address. */
struct list {
	struct janitor_site *sites;
	size_t count, bytes;
};

/* Classify `found`, the bytes that the head owns. */
enum jump_state site_jump_state(const struct text *text, const struct detour *head,
				const uint8_t *found);

/*
 * Read the bytes there. Returns enum jump_state, or -EFAULT; `found` has room for the bytes that
 * the jump owns.
 */
int site_look(const struct text *text, const struct detour *head, uint8_t *found);

/*
 * Store the jump (arm) or remove it, with no thread stopped: any jump of the form "byte". Also
 * remove one of the form "first" whose first byte another tool replaced: once that tool restores
 * its byte, the rest would make a wrong instruction. Returns 0, -WM_E_SITE_FOREIGN,
 * -WM_E_SITE_CHANGED, -EFAULT or text_write_code()'s errors. batch_sync_cores() before and after.
 */
int site_store(const struct text *text, struct detour *head, int arm);

/* Whether that takes a stop. */
int site_needs_stop(const struct detour *head);

/* Count the semaphore of each that is to be armed in the chain, or that is up. 0 or an error. */
int site_count_semaphores(const struct text *text, struct detour *head, int arm);

/* One for each detour that is wanted. 0 or -ENOMEM. Free it if it has any. */
int site_list_make(struct list *list, int (*wanted)(const struct detour *));
void site_list_free(struct list *list);

/*
 * Store or remove all of a list: until all is done or refused, or the time is over. Each site has
 * its result then, also in its detour's is_armed. Returns 0, or why nothing more could be done.
 */
int site_change_all(const struct text *text, struct list *list, int arm, unsigned int timeout_ms,
		    struct detour_result *result);

/* Whether trying again later may help. */
int site_is_passing(int error);

#endif
