/* SPDX-License-Identifier: MIT */
/*
 * The bytes of jumps: compared, stored, taken away. Under the agent's lock.
 */
#ifndef AGENT_DETOUR_SITE_H
#define AGENT_DETOUR_SITE_H

#include "agent/detour/detour.h"
#include "agent/detour/list.h"

/* What is found there. Returns enum stand, or -EFAULT; `found` has room for what it owns. */
int site_look(const struct text *text, const struct detour *head, uint8_t *found);

/*
 * Store the jump (arm), or take it away, with no thread stopped. In the form "byte" alone, and where another tool's
 * byte keeps everyone out of it: then what is ours behind that is taken away. Returns 0, -WM_E_SITE_HELD,
 * -WM_E_SITE_CHANGED, -EFAULT or text_write_code()'s errors. batch_sync_cores() before and after.
 */
int site_store(const struct text *text, struct detour *head, int arm);

/* Whether that takes a stop. */
int site_needs_stop(const struct detour *head);

/* Count the semaphore of each that is to be armed in the chain, or that is up. 0 or an error. */
int site_count_semaphores(const struct text *text, struct detour *head, int arm);

/*
 * Store or take away all of a list: until all is done or refused, or the time is over. Each site tells what came of
 * it, and its detour's is_armed. Returns 0, or why nothing more could be done.
 */
int site_change_all(const struct text *text, struct list *list, int arm, unsigned int timeout_ms,
		    struct detour_result *result);

/* Whether trying again later may help. */
int site_is_passing(int error);

#endif
