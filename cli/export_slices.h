/* SPDX-License-Identifier: MIT */
/*
 * Which spans can be slices of their thread's track: readers of such a track take an end for that
 * of the innermost slice. Spans may cross, and may never end: then those that begin within another
 * one and end behind it, or not at all, need a track of their own.
 *
 * The trace is walked twice: the first time shows which these are.
 */
#ifndef CLI_EXPORT_SLICES_H
#define CLI_EXPORT_SLICES_H

#include "read/pass/merge.h"

#include <stdint.h>

struct slices;

enum slice_kind {
	SLICE_OF_THREAD,
	SLICE_APART,
	SLICE_UNPAIRED, /* an end whose begin is not known */
};

/* NULL: no memory. Free allows NULL. */
struct slices *slices_new(void);
void slices_free(struct slices *slices);

/* Take a begin or end of a span in the first walk: 0 or -ENOMEM. Then slices_rewind(). */
int slices_note(struct slices *slices, const struct merge_event *event);
void slices_rewind(struct slices *slices);

/*
 * In the second walk: what it is, in *kind, and in *number the span's, from 1 on. 0 or -ENOMEM. The
 * events must come as in the first; more may follow.
 */
int slices_take(struct slices *slices, const struct merge_event *event, enum slice_kind *kind,
		uint64_t *number);

#endif
