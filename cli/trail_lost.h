/* SPDX-License-Identifier: MIT */
/*
 * What trails lack, printed by the commands that sum them up: their sums alone would not show it.
 */
#ifndef CLI_TRAIL_LOST_H
#define CLI_TRAIL_LOST_H

#include "cli/trail_bounds.h"

/* What one thread's trail lacks. */
struct trail_lost {
	uint64_t places, blocks; /* the latter: that are known of */
	uint64_t unrecorded;	 /* places where code ran unrecorded */
	int is_cut;		 /* it stops without an end, within the bounds */
};

void trail_lost_count(struct trail_lost *lost, const struct trace_reader *reader,
		      const struct trail_range *range);

/*
 * Whether the trace lists that thread, and its recording was cut off before any of it was written.
 */
int trail_lost_is_gone(const struct trace_reader *reader,
		       const struct trail_thread_entry *reported);

struct trail_lost_wanted {
	uint32_t tid, pid; /* 0: all */
	const struct trail_bounds *bounds;
};

/*
 * Of which threads blocks are missing between the bounds, and whose trail stops without an end. On
 * stderr.
 */
void trail_complain_lost(const struct trail_view *view, const struct trail_lost_wanted *wanted);

/* The latter only. Returns of how many. */
size_t trail_complain_cut(const struct trail_view *view, const struct trail_lost_wanted *wanted);

#endif
