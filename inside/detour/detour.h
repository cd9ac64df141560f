/* SPDX-License-Identifier: MIT */
/*
 * Detours inside: abi/detour.h says what one is.
 *
 * A detour lives for ever once it is prepared: a thread may be in its trampoline at any time. Its
 * two events, at the point and at the return, are variants as a marker's (inside/marker/marker.h),
 * but in no registry; a site each, for the text.
 *
 *	idle       no session wants it; no plan, dormant text
 *	prepared   a session has asked for it; likewise
 *	live       COMMIT: plans, then the jump is stored
 *	inert      no session wants it, yet the jump is there: to be removed as soon as possible
 *
 * Everything here is called under the agent's lock.
 */
#ifndef INSIDE_DETOUR_DETOUR_H
#define INSIDE_DETOUR_DETOUR_H

#include "abi/detour.h"
#include "inside/detour/landing.h"
#include "inside/marker/marker.h"
#include "inside/patch/text.h"

#include <waymark/error.h>

#include <stddef.h>
#include <stdint.h>

#define DETOUR_BREAKPOINT 0xcc /* int3, of other tools */
#define DETOUR_FOUND_BYTES 8   /* of code, that a refusal reports */

struct detour {
	/* of its chain: the one whose jump it is; itself if there is no other */
	struct detour *head;
	struct detour *next_member; /* of the chain, in the order in which they came */
	struct detour *next, *next_in_bucket;
	struct control_detour *record; /* a copy of the message's */
	const uint8_t *code_bytes;     /* in it, as are these */
	const struct detour_fixup *fixups;
	uint64_t hash;	  /* of the record */
	uintptr_t code;	  /* the trampoline */
	struct jump jump; /* of a head */
	uint8_t prot;	  /* of the text that it is in */
	/* a head: the jump is in place, or will be again when another tool has gone */
	uint8_t is_armed;
	uint8_t is_foreign; /* an armed head: its jump was gone when looked at (foreign_bytes.h) */
	uint8_t is_lost;    /* likewise: the file's bytes are there */
	uint8_t is_astray;  /* a head that is armed: its jump leads to memory of the program's */
	uint8_t is_counted_up; /* its semaphore */
	uint8_t in_batch;
	uint8_t is_listed;	  /* a head: some member is in the batch */
	uint8_t is_linked;	  /* not a head: the permanent link to its event is set */
	uint32_t lanes, prepared; /* sessions, a bit each */
	uint32_t inherited;	  /* likewise the parent's, at the fork */
	uint64_t held_ns;	  /* CLOCK_MONOTONIC since when it may not have stood */
	struct variant events[2]; /* at the point, of the return */
	struct site sites[2];
	/* in a batch */
	int error;
	uint8_t found[DETOUR_FOUND_BYTES];
};

/* What came of a batch. */
struct detour_result {
	uint32_t markers, sites, refused;
	uint32_t unsafe;     /* of the markers, those in the form "first" */
	uint64_t done_ns;    /* CLOCK_MONOTONIC when the last byte was stored */
	uint64_t stopped_ns; /* how long all threads stood still, all tries together */
};

/* Called when a detour is refused; `detour` NULL: what was asked for never became one. */
struct detour_refusal {
	int error;
	uintptr_t point;
	const char *text; /* of the event; "" if unknown */
	uint8_t expected[DETOUR_FOUND_BYTES], found[DETOUR_FOUND_BYTES];
};

/*
 * Bytes of code at its address that no other detour may change: the instruction, and those that its
 * distance may reach into.
 */
static inline size_t detour_owned(const struct control_detour *record)
{
	return (size_t)record->insn_bytes + record->kept_bytes;
}

/* The bytes at the place of a jump. */
enum jump_state {
	JUMP_FILE_BYTES, /* the file's bytes */
	JUMP_STORED,	 /* ours */
	JUMP_ASTRAY,	 /* likewise, but what its distance ends in has changed */
	JUMP_FOREIGN,	 /* another tool's byte is the first, the others are one or the other */
	JUMP_OTHER,	 /* something else */
};

/* `found`: the bytes that it owns. Hit path: no libc. */
static inline enum jump_state detour_jump_state(const struct detour *head, const uint8_t *found)
{
	const struct control_detour *record = head->record;
	const struct jump *jump = &head->jump;
	int is_file = 1, is_jump = 1, is_kept = 1;
	uint8_t first = jump->bytes.at ? record->original[0] : jump->bytes.bytes[0];

	for (unsigned int i = 1; i < record->insn_bytes; i++) {
		unsigned int of_jump = i - jump->bytes.at;
		uint8_t stored = of_jump < jump->bytes.count ? jump->bytes.bytes[of_jump]
							     : record->original[i];

		is_file &= found[i] == record->original[i];
		is_jump &= found[i] == stored;
	}
	for (unsigned int i = 0; i < jump->kept; i++) {
		uint8_t byte = found[record->insn_bytes + i];

		/* another tool's breakpoint has its landing */
		is_kept &= byte == record->original[record->insn_bytes + i] ||
			   (record->starts >> i & 1 && byte == DETOUR_BREAKPOINT);
	}
	if (is_jump && found[0] == first)
		return is_kept ? JUMP_STORED : JUMP_ASTRAY;
	if (is_file && found[0] == record->original[0])
		return is_kept ? JUMP_FILE_BYTES : JUMP_OTHER;
	return (is_jump || is_file) && is_kept ? JUMP_FOREIGN : JUMP_OTHER;
}

/* Bytes to store from the instruction's address + `at` on; count 0: none. */
struct detour_store {
	const uint8_t *bytes;
	unsigned int at, count;
};

/* With all threads stopped: what arms the head, or takes its jump away. 0 or an error. No libc. */
static inline int detour_choose(const struct detour *head, int arm, const uint8_t *found,
				struct detour_store *store)
{
	const uint8_t *original = head->record->original;
	const struct pun_bytes *jump = &head->jump.bytes;
	enum jump_state state = detour_jump_state(head, found);
	unsigned int first = jump->at ? jump->at : 1;

	*store = (struct detour_store){ 0 };
	if (state == JUMP_ASTRAY && !arm)
		state = JUMP_STORED;
	if (state == JUMP_FOREIGN && arm)
		return -WM_E_SITE_FOREIGN;
	if (state == JUMP_FOREIGN) /* the first byte is the other tool's */
		*store = (struct detour_store){ original + first, first,
						jump->at + jump->count - first };
	else if (state != JUMP_FILE_BYTES && state != JUMP_STORED)
		return -WM_E_SITE_CHANGED;
	else if (state == (arm ? JUMP_FILE_BYTES : JUMP_STORED))
		*store = (struct detour_store){ arm ? jump->bytes : original + jump->at, jump->at,
						jump->count };
	return 0;
}

/* Whether it is a guard, which watches need (inside/watch/guard.h), and no event. */
static inline int detour_is_guard(const struct detour *detour)
{
	return (detour->record->flags & DETOUR_GUARDS) != 0;
}

/* The event at the point is wanted unless the return alone is. */
static inline int detour_has_event(const struct detour *detour, int which)
{
	uint32_t flags = detour->record->flags;

	if (detour_is_guard(detour))
		return 0;
	return which ? (flags & DETOUR_RETURN) != 0 : !(flags & (DETOUR_SECRETIVE | DETOUR_ONCE));
}

/* So does one whose entry is kept for it. */
static inline int detour_has_plan(const struct detour *detour, int which)
{
	return detour_has_event(detour, which) || (!which && detour->record->flags & DETOUR_ONCE);
}

#define CHAIN_REACH_MAX (INT32_MAX - 2 * DETOUR_CODE_MAX)

/* ---- chain.c: abi/detour.h says what a chain is ---- */

/* The head of the chain that a record belongs to; NULL: it would begin one. */
struct detour *chain_find(const struct control_detour *record);

/* Whether its event can be come to from the head's trampoline. */
static inline int chain_is_linked(const struct detour *detour)
{
	return detour->head == detour || detour->is_linked;
}

/*
 * Make the detour a member: the link from each of the others can reach it. 0, -WM_E_DETOUR_REACH,
 * -WM_E_DETOUR_TAKEN: the chain is long enough. table_add() makes it the last.
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

/*
 * Links that lead to all members that are to be armed. Nobody has to stop for that. 0 or an error.
 */
int chain_link(const struct text *text, struct detour *head);

/* ---- build_detour.c ---- */

/*
 * Prepare one event of a PLACE message for a session: the first of its choices that can be had, in
 * the best form. `records` are `count` of them, one behind the other, each of record->bytes, which
 * are known to be there; nothing else in them has been checked. Returns 0, or an error with
 * *refusal filled in (its text points into a record).
 */
int detour_place(const struct text *text, unsigned int lane, const struct control_detour *records,
		 unsigned int count, struct detour_refusal *refusal);

/* Whether any event has ever had what the kernel reads for it: a string, callers. */
int detour_any_careful(void);

/* ---- arm.c ---- */

/* Once, before the first registry_scan(): from here on the registry reports modules. */
void detour_init(void);

/* The guards that watches need (watch/sigtrap.h). NULL: no guard is taken. */
struct detour_guards {
	uint64_t (*entry)(uint8_t flags);	 /* what a guard runs, by DETOUR_GUARD_* */
	void (*begin)(void);			 /* they are about to be stored */
	int (*may_end)(const struct text *text); /* 0: nothing needs them now; else why they stay */
	void (*end)(void); /* those that no session wants are taken away, as far as can be */
};

extern const struct detour_guards *detour_guards;

/* Arm all that a session prepared; report refusals to the registry's listener. 0 or an error. */
int detour_commit(const struct text *text, unsigned int lane, struct detour_result *result);

/* The session wants none of its detours any more: no events from here on. Never fails. */
void detour_release(unsigned int lane);

/* The same of those that were not placed again since the last commit. */
void detour_release_unprepared(unsigned int lane);

/*
 * Remove the jumps that no session wants, waiting or trying again for up to
 * timeout_ms. Returns how many are left.
 */
uint32_t detour_disarm_idle(const struct text *text, unsigned int timeout_ms,
			    struct detour_result *result);

/* Now and then: what could not be disarmed, what forked children inherited. */
void detour_tick(const struct text *text);

/* Whether unwanted jumps are still in place because of a temporary obstacle: a tracer. */
int detour_waits(void);

/* A new session in this lane: its event ids start over. */
void detour_lane_open(unsigned int lane);

/*
 * The child of a fork: only the parent's sessions `lanes` keep their events. `whole`: the agent's
 * lock was held at the fork.
 */
void detour_forked(int whole, uint32_t lanes);

/*
 * What the parent's session in lane `from` had at the fork is from now on that of our session in
 * lane `to`, under the same ids. Returns how many detours those are.
 */
uint32_t detour_adopt(unsigned int from, unsigned int to);

/* ---- detour_table.c ---- */

/* All, in the order in which they came. NULL ends. */
struct detour *detour_first(void);

#define TABLE_CELL_BYTES 64u

/* The first in the bucket of an address' cell, where all are that begin there. NULL: none. */
struct detour *table_at(uintptr_t address);

/* The one of exactly this record; NULL. */
struct detour *table_find(const struct control_detour *record, uint64_t hash);

/*
 * The head of a chain that owns code in [start, end) and for which `matters` says so; not `but`.
 * NULL.
 */
struct detour *table_overlap(uintptr_t start, uintptr_t end, const struct detour *but,
			     int (*matters)(const struct detour *));

void table_add(struct detour *detour);

/* Of the bytes of a record (FNV-1a, by words). */
uint64_t table_hash(const struct control_detour *record);

#endif
