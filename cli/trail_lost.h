/* SPDX-License-Identifier: MIT */
/* What trails lack, said by the commands that sum them up: nothing that they print would show it. */
#ifndef CLI_TRAIL_LOST_H
#define CLI_TRAIL_LOST_H

#include "cli/trail_bounds.h"

struct trail_lost_wanted {
	uint32_t tid, pid; /* 0: all */
	const struct trail_bounds *bounds;
};

/* Of which threads blocks are missing between the bounds, and whose trail stops without an end. On stderr. */
void complain_lost(const struct trail_view *view, const struct trail_lost_wanted *wanted);

/* The latter only. Returns of how many. */
size_t complain_cut(const struct trail_view *view, const struct trail_lost_wanted *wanted);

#endif
