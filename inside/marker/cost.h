/* SPDX-License-Identifier: MIT */
/*
 * Counts (abi/cost.h) and callers, which markers record beside their fields: which session wants
 * which, and how a hit reads the counts.
 */
#ifndef INSIDE_MARKER_COST_H
#define INSIDE_MARKER_COST_H

#include "abi/cost.h"
#include "abi/page.h"

#include <stddef.h>
#include <stdint.h>

struct writer;

/*
 * What a session wants counted at the markers that a glob matches, with what it wants already. The
 * glob was checked (rule.h). 0, -ENOMEM, or -E2BIG past COST_RULES_MAX. Under the agent's lock, as
 * all that concerns rules.
 */
#define COST_RULES_MAX 4096
int cost_add(unsigned int lane, const char *glob, unsigned int kinds, unsigned int callers);

/* How many seccomp filters a thread may have: the least of what sessions with counts say. */
void cost_filters_set(unsigned int lane, uint32_t filters);
uint32_t cost_filters(void);

/* Whether hits may make the system calls. Control side. */
void cost_allow(int may);
int cost_is_allowed(void);

void cost_clear(unsigned int lane);

/* A bit for each kind that the session wants at the marker of that name; how many callers. */
unsigned int cost_wanted(unsigned int lane, const char *name, unsigned int *callers);

/* Whether any session wants counts or callers; which kinds all of them want at any marker. */
int cost_any(void);
unsigned int cost_kinds(void);

/* How many kinds are in a mask. No popcount: that may be a call of libgcc's. */
static inline unsigned int cost_count(unsigned int kinds)
{
	_Static_assert(COST_KINDS_COUNT <= 16, "as many bits as are added up");
	kinds -= kinds >> 1 & 0x5555;
	kinds = (kinds & 0x3333) + (kinds >> 2 & 0x3333);
	kinds = (kinds + (kinds >> 4)) & 0x0f0f;
	return (kinds + (kinds >> 8)) & 0x1f;
}

/* Whether an event has room for so many more fields. */
int cost_fits(unsigned int kinds, unsigned int callers, const uint8_t types[16]);

/*
 * Append the fields to the types, and to a site's text their names and number. `text` has room for
 * COST_TEXT_BYTES more; returns its new length with its NUL.
 */
#define COST_FIELD_BYTES(name, field, unit) +sizeof(field)
/* the number of counts, and "," before each field */
#define COST_TEXT_BYTES (1 + sizeof(FIELD_CALLCHAIN) COST_KINDS(COST_FIELD_BYTES))
size_t cost_declare(unsigned int kinds, unsigned int callers, uint8_t types[16], char *text,
		    size_t text_bytes);

/*
 * The calling thread's values, in order of their kinds; COST_UNAVAILABLE if no system call may be
 * made, or it has no counter. Returns how many. Hit path: async-signal-safe, keeps errno.
 */
unsigned int cost_read(const struct writer *writer, unsigned int kinds,
		       uint64_t values[COST_KINDS_COUNT]);

/* Before the first cost_read() of a thread whose kinds are of COST_COUNTED. Hit path, likewise. */
void cost_prepare(struct writer *writer);

/* rdpmc; of a test, a counter that there is. */
extern uint64_t (*cost_counter)(uint32_t number) __attribute__((visibility("hidden")));

#endif
