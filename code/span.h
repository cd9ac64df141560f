/* SPDX-License-Identifier: MIT */
/*
 * Whether a jump can stand at a place, and over which instructions; or why not.
 */
#ifndef CODE_SPAN_H
#define CODE_SPAN_H

#include "abi/detour.h"
#include "code/move.h"
#include "code/sweep.h"

#include <stdbool.h>
#include <stdint.h>

#define SPAN_INSNS_MAX DETOUR_MOVES_MAX
#define SPAN_DETAIL_BYTES 96
#define SPAN_JUMP_BYTES 5
#define SPAN_SHORT_JUMP_BYTES 2

struct span {
	uint64_t address; /* of the first instruction, where the jump will stand */
	uint64_t relay;	  /* where 5 bytes of filler take the long jump; 0: none, the span does */
	uint64_t point;	  /* before which instruction, or at the end, the event happens */
	unsigned int bytes;
	unsigned int kept; /* bytes behind it that a punned jump ends in; 0: it isn't punned */
	enum detour_tier tier;
	const uint64_t *points; /* of a common span, all of them; NULL: there is only the one */
	unsigned int point_count;
	unsigned int insn_count;
	struct move_insn insns[SPAN_INSNS_MAX];
	bool keeps_flags;		/* what the flags hold at the point is still wanted */
	int refusal;			/* -WM_E_* with TIER_REFUSED, else 0 */
	char detail[SPAN_DETAIL_BYTES]; /* of the refusal: what, and where; or "" */
};

/*
 * Find the span for an event at `point`. is_entry: the point is a function's entry; then an endbr64 there
 * stays where it is and the event happens behind it. Returns 0, or the refusal.
 */
int span_find_whole(const struct sweep *sweep, uint64_t point, bool is_entry, struct span *span);

/*
 * Likewise, with a punned jump where there is no other: abi/detour.h. Whether one can be had is known in
 * a process only.
 */
int span_find(const struct sweep *sweep, uint64_t point, bool is_entry, struct span *span);

/*
 * Likewise, the span that begins at `start` and has room for all of these points, in order, the last of
 * which may lie at its end. `point` is one of them, or has its endbr64 before it. They stay the caller's.
 */
int span_find_common(const struct sweep *sweep, uint64_t point, bool is_entry, uint64_t start,
		     const uint64_t *points, unsigned int count, struct span *span);

#endif
