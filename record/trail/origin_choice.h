/* SPDX-License-Identifier: MIT */
/* Which origin a live trail of waymark/trail.h takes. */
#ifndef RECORD_TRAIL_ORIGIN_CHOICE_H
#define RECORD_TRAIL_ORIGIN_CHOICE_H

#include "record/trail/tracing.h"

#include <stddef.h>
#include <stdint.h>
#include <waymark/trail.h>

/* ORIGIN_ORACLE */
#define TRAIL_ORIGIN_ORACLE ((enum wm_trail_origin)1)

#define TRAIL_FOLLOWS (1u << 31) /* among WM_TRAIL_FLAG_*: WM_FOLLOW_CHILDREN */

struct origin_can {
	enum wm_trail_origin origin;
	uint32_t can; /* WM_TRAIL_FLAG_* and TRAIL_FOLLOWS that may be asked of it */
	int can_hold; /* it stops threads while there is no room: WM_POLICY_BLOCK */
};

/* A request to one origin. */
struct origin_wanted {
	enum wm_trail_origin origin;
	uint32_t flags;	 /* WM_TRAIL_FLAG_*, TRAIL_FOLLOWS */
	int must_hold;	 /* WM_POLICY_BLOCK */
	int may_do_less; /* the user named no flags: an origin may lack some */
};

/*
 * Choose: for WM_TRAIL_ORIGIN_AUTO the best of those that can do what is wanted. how->machine is
 * the caller's, and how->origin what was chosen. why[bytes] says what is wrong, and of
 * WM_TRAIL_ORIGIN_AUTO why it is not one that is better. 0 or a negative error.
 */
int origin_choose(const struct origin_can **can, struct tracing_how *how,
		  const struct origin_wanted *wanted, char *why, size_t bytes);

#endif
