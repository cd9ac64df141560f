/* SPDX-License-Identifier: MIT */
#ifndef INSIDE_MARKER_HIT_H
#define INSIDE_MARKER_HIT_H

#include "abi/detour.h"
#include "abi/page.h"
#include "inside/store/thread_writer.h"

#include <stdint.h>

/*
 * The value for wm_record.enter of a marker with these field types: one of the stubs
 * below, by the payload's shape (plan.h). See abi/site.h.
 */
uint64_t hit_entry(const uint8_t types[16]);

/* The entry of detours, for any fields. */
uint64_t hit_entry_detour(void);

struct marker;

/*
 * The end of a call, for the sessions that recorded its begin (thread_writer.h: `begun`). It counts
 * as lost with those that lost the begin. `writer`: writer_find()'s, or NULL.
 */
void hit_ended(struct writer *writer, const struct marker *marker, const uint64_t *payload,
	       uintptr_t sp, uint64_t begun);

/*
 * Whether a handler of one of these sessions, a bit each, replaces the call that begins
 * (abi/detour.h: DETOUR_REPLACE), and with what. `payload`: the entry's fields. Returns that
 * session's bit; 0: the function is to run. Hit path.
 */
uint32_t hit_replaces(const struct marker *marker, const uint64_t *payload, uintptr_t sp,
		      uint32_t lanes, uint64_t *result);

/*
 * A hit that no stub made, with its payload's fields and an earlier time, by the clock of its one
 * session. It is not counted, as it is no marker's. `sp` is the caller's own. Hit path.
 */
void hit_stamped(const struct marker *marker, const uint64_t *payload, uintptr_t sp,
		 uint64_t ticks);

/* One that could not be taken: counted as lost with each session that has the event. Hit path. */
void hit_discard(const struct marker *marker, uintptr_t sp);

/* ---- callers of a hit ---- */

/* The registers at an instruction of the agent's. */
struct hit_registers {
	uintptr_t pc, sp, bp, bx, r12, r13, r14, r15;
};

/* Where a hit was. */
struct hit_at {
	const struct control_detour *record; /* NULL: a marker */
	int is_return;			     /* of its function; the payload is of no use */
	uintptr_t sp;			     /* where its stub pushed */
	const uint64_t *payload;
	struct writer_stack stack; /* the thread's own */
};

/* Its place and callers. */
struct hit_callers {
	unsigned int wanted; /* callers, FIELD_CALLERS_MAX at most */
	unsigned int count;  /* of all[] */
	uint8_t state;	     /* enum field_state */
	uint64_t all[1 + FIELD_CALLERS_MAX];
};

/* inside/unwind/caller_walk.h, which is above; set before any event has callers. Hit path. */
extern void (*hit_callers_find)(const struct hit_registers *here, const struct hit_at *at,
				struct hit_callers *callers) __attribute__((visibility("hidden")));

/* arch/: the stubs. */
void hit_enter_fixed(void);
void hit_enter_text(void);
void hit_enter_refs(void);
void hit_enter_detour(void);

#endif
