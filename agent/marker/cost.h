/* SPDX-License-Identifier: MIT */
/*
 * Counts that markers record beside their fields (abi/cost.h): which session wants which, and how a
 * hit reads them.
 */
#ifndef AGENT_MARKER_COST_H
#define AGENT_MARKER_COST_H

#include "abi/cost.h"

#include <stddef.h>
#include <stdint.h>

/*
 * What a session wants counted at the markers that a glob matches, with what it wants already. The
 * glob was checked (rule.h). 0, -ENOMEM, or -E2BIG past COST_RULES_MAX. Under the agent's lock, as
 * all that concerns rules.
 */
#define COST_RULES_MAX 4096
int cost_add(unsigned int lane, const char *glob, unsigned int kinds);

/* How many seccomp filters a thread may have: the least of what sessions with counts say. */
void cost_filters_set(unsigned int lane, uint32_t filters);
uint32_t cost_filters(void);

/* Whether hits may make the system calls. Control side. */
void cost_allow(int may);
int cost_is_allowed(void);

void cost_clear(unsigned int lane);

/* A bit for each kind that the session wants at the marker of that name. */
unsigned int cost_wanted(unsigned int lane, const char *name);

/* Whether any session wants any. */
int cost_any(void);

/* How many kinds are in a mask. No popcount: that may be a call of libgcc's. */
static inline unsigned int cost_count(unsigned int kinds)
{
	unsigned int count = 0;

	for (unsigned int kind = 0; kind < COST_KINDS_COUNT; kind++)
		count += kinds >> kind & 1;
	return count;
}

/* Whether an event has room for so many more fields. */
int cost_fits(unsigned int kinds, const uint8_t types[16]);

/*
 * Append the fields to the types, and to a site's text their names and number. `text` has room for
 * COST_TEXT_BYTES more; returns its new length with its NUL.
 */
#define COST_TEXT_BYTES 128
size_t cost_declare(unsigned int kinds, uint8_t types[16], char *text, size_t text_bytes);

/*
 * The calling thread's values, in order of their kinds; COST_UNAVAILABLE if no system call may be
 * made. Returns how many. Hit path: async-signal-safe, keeps errno.
 */
unsigned int cost_read(unsigned int kinds, uint64_t values[COST_KINDS_COUNT]);

#endif
