/* SPDX-License-Identifier: MIT */
/*
 * Detours inside: abi/detour.h says what one is.
 *
 * A detour lives for ever once it is prepared: a thread may be in its trampoline at any time. Its two
 * events, at the point and at the return, are variants as a marker's (agent/marker/marker.h), but in no
 * registry; a site each, for the text.
 *
 *	idle       nobody wants it; no plan, dormant text
 *	prepared   a session has asked for it; likewise
 *	live       COMMIT: plans, then the jump is stored
 *	inert      nobody wants it, yet the jump stands: to be taken away as soon as can be
 *
 * Everything here is called under the agent's lock.
 */
#ifndef AGENT_DETOUR_DETOUR_H
#define AGENT_DETOUR_DETOUR_H

#include "abi/detour.h"
#include "agent/marker/marker.h"
#include "agent/patch/text.h"

#include <stddef.h>
#include <stdint.h>

#define DETOUR_JUMP_BYTES 5
#define DETOUR_SHORT_BYTES 2 /* of a jump to a relay */
#define DETOUR_RELAY_BYTES 5

struct detour {
	struct detour *head; /* of its chain: the one whose jump it is; itself if there is no other */
	struct detour *next_member; /* of the chain, in the order in which they came */
	struct detour *next, *next_in_bucket, *next_relay_in_bucket;
	struct control_detour *record; /* a copy of the message's */
	const uint8_t *code_bytes;     /* in it, as are these */
	const struct detour_fixup *fixups;
	const struct detour_move *moves;
	uint64_t hash;			 /* of the record */
	uintptr_t code;			 /* the trampoline */
	uint8_t jump[DETOUR_JUMP_BYTES]; /* at the address, jump_bytes of them */
	uint8_t jump_bytes;
	uintptr_t relay; /* where the filler is that the short jump leads to; 0: none */
	uint8_t relay_jump[DETOUR_JUMP_BYTES];
	uintptr_t landing;     /* where a punned jump leads (pun.h); 0: it isn't one */
	uint8_t prot;	       /* of the text that it stands in */
	uint8_t is_armed;      /* the jump stands */
	uint8_t is_counted_up; /* its semaphore */
	uint8_t in_batch;
	uint8_t is_listed;	  /* a head: some member is in the batch */
	uint8_t is_linked;	  /* not a head: the links that lead to its event stand, for good */
	uint8_t is_guest;	  /* not a head: its span is another than the chain's */
	uint8_t is_gone;	  /* its module went, and it hasn't been asked for since */
	uint32_t lanes, prepared; /* sessions, a bit each */
	uint32_t inherited;	  /* likewise the parent's, at the fork */
	struct variant events[2]; /* at the point, of the return */
	struct site sites[2];
	/* exits.h */
	uint8_t is_led_into; /* a head that is to be armed: some other's exit leads into its span */
	uint16_t exit_at;    /* where the distance lies in the code; 0: it has no exit */
	uintptr_t exit_to;   /* where it leads now */
	uintptr_t exit_wanted; /* when it is stored with a batch */
	struct detour *next_exit;
	/* in a batch */
	int error;
	uint8_t found[DETOUR_JUMP_BYTES];
};

/* What came of a batch. */
struct detour_result {
	uint32_t markers, sites, refused;
	uint64_t done_ns;    /* CLOCK_MONOTONIC when the last byte was stored */
	uint64_t stopped_ns; /* how long all threads stood still, all tries together */
};

/* Called when a detour is refused; `detour` NULL: what was asked for never became one. */
struct detour_refusal {
	int error;
	uintptr_t point;
	const char *text; /* of the event; "" if unknown */
	uint8_t expected[DETOUR_JUMP_BYTES], found[DETOUR_JUMP_BYTES];
};

/* Bytes of code at its address that nobody else may change: the span, and what a punned jump ends in. */
static inline size_t detour_owned(const struct control_detour *record)
{
	return (size_t)record->span_bytes + record->pun;
}

/* Whether it is a guard, which watches need (agent/watch/guard.h), and no event. */
static inline int detour_is_guard(const struct detour *detour)
{
	return (detour->record->flags & DETOUR_GUARDS) != 0;
}

#define CHAIN_REACH_MAX (INT32_MAX - 2 * DETOUR_CODE_MAX)

/* ---- chain.c: abi/detour.h says what a chain is ---- */

/* The head of the chain that a record belongs to; NULL: it would begin one. */
struct detour *chain_find(const struct control_detour *record);

/*
 * The head of a chain that is wanted, whose span is in the way of the record's and which has links for its point:
 * the record's event may be a guest there. NULL.
 */
struct detour *chain_host(const struct control_detour *record);

/* The offset of its point in the chain's span. */
static inline uint64_t chain_point(const struct detour *detour)
{
	return detour->record->point - detour->head->record->address;
}

/* Where the link lies in its trampoline for the events of a point: an offset in the span that it knows. */
static inline uintptr_t chain_link(const struct detour *detour, uint64_t point)
{
	const struct detour_link *links = detour_links(detour->record);
	unsigned int i = 0;

	if (point == chain_point(detour))
		return detour->code + detour->record->link_at;
	while (links[i].point != point)
		i++;
	return detour->code + links[i].at;
}

/* Whether its event can be come to from the head's trampoline. */
static inline int chain_is_linked(const struct detour *detour)
{
	return detour->head == detour || detour->is_linked;
}

/*
 * Make the detour a member: links from and to each of the others can reach, but none stands yet. 0,
 * -WM_E_DETOUR_REACH, -WM_E_DETOUR_TAKEN: the chain is long enough. table_add() makes it the last.
 */
int chain_join(struct detour *head, struct detour *detour);

/* Whether any session wants any of the chain. */
static inline int chain_is_wanted(const struct detour *detour)
{
	uint32_t any = 0;

	for (const struct detour *d = detour->head; d; d = d->next_member)
		any |= d->lanes | d->prepared;
	return any != 0;
}

/* The one before it. */
static inline struct detour *chain_before(const struct detour *detour)
{
	struct detour *before = detour->head;

	while (before->next_member != detour)
		before = before->next_member;
	return before;
}

/* ---- place.c ---- */

/*
 * Prepare one detour of a PLACE message for a session. `record` has `bytes` bytes, aligned to 8, of
 * which it may use fewer; nothing in it has been checked but that record->bytes <= bytes. Returns 0, or
 * an error with *refusal filled in (its text points into the record).
 */
int detour_place(const struct text *text, unsigned int lane, const struct control_detour *record,
		 size_t bytes, struct detour_refusal *refusal);

/* Whether any event has ever had a string. */
int detour_any_strings(void);

/* ---- arm.c ---- */

/* Arm all that a session has prepared. Refusals are told to the registry's listener. 0 or an error. */
int detour_commit(const struct text *text, unsigned int lane, struct detour_result *result);

/* The session wants none of its detours any more: no events from here on. Never fails. */
void detour_release(unsigned int lane);

/*
 * Take the jumps away that nobody wants, waiting or trying again as long as that may take up to
 * timeout_ms. Returns how many are left.
 */
uint32_t detour_disarm_idle(const struct text *text, unsigned int timeout_ms,
			    struct detour_result *result);

/* Now and then: what could not be disarmed, what forked children inherited. */
void detour_tick(const struct text *text);

/* Whether jumps that nobody wants stand because something was in the way that may pass: a tracer. */
int detour_waits(void);

/* A new session in this lane: its event ids begin anew. */
void detour_lane_open(unsigned int lane);

/* A module that is new. */
void detour_module_came(const struct module *module);

/* The module's memory is gone: its detours are forgotten, and nothing there is touched. */
void detour_module_gone(const struct module *module);

/*
 * The child of a fork: nobody wants anything. `whole`: the lock was held at the fork. Events that some
 * of the sessions `lanes` have keep their plans, by which they are counted as lost: returns their lanes.
 */
uint32_t detour_forked(int whole, uint32_t lanes);

/*
 * What the parent's session in lane `from` had at the fork is from now on that of our session in lane
 * `to`, under the same ids. Returns how many detours those are.
 */
uint32_t detour_adopt(unsigned int from, unsigned int to);

/* ---- table.c ---- */

/* All, in the order in which they came. NULL ends. */
struct detour *detour_first(void);

#define TABLE_CELL_BYTES 64u

/* The first in the bucket of an address' cell, where all are that begin there. NULL: none. */
struct detour *table_at(uintptr_t address);

/* The one of exactly this record; NULL. A guest only where its host is wanted: else it may have its own jump. */
struct detour *table_find(const struct control_detour *record, uint64_t hash);

/*
 * The head of a chain whose span, or what its punned jump ends in, overlaps [start, end) and for which
 * `matters` says so; not `but`. NULL.
 */
struct detour *table_overlap(uintptr_t start, uintptr_t end, const struct detour *but,
			     int (*matters)(const struct detour *));

/* Likewise one whose relay overlaps [start, end). */
struct detour *table_relay(uintptr_t start, uintptr_t end, const struct detour *but,
			   int (*matters)(const struct detour *));

void table_add(struct detour *detour);

/* Of the bytes of a record (FNV-1a, by words). */
uint64_t table_hash(const struct control_detour *record);

#endif
