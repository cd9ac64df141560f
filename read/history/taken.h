/* SPDX-License-Identifier: MIT */
/*
 * The branches that a thread took, for exports: where from, where to, and where code between two is
 * not straight.
 */
#ifndef READ_HISTORY_TAKEN_H
#define READ_HISTORY_TAKEN_H

#include "read/export/export.h"

struct taken_sink {
	/* The instruction at `from` led to `to`, which is not the one behind it. */
	void (*branch)(void *data, uint64_t from, uint64_t to);
	/*
	 * The next branch, if any, was not reached straight from the last one: a signal, a loss,
	 * the end.
	 */
	void (*cut)(void *data);
	/* The next branches are of this table's era, a new one. 0 or a negative error. */
	int (*era)(void *data, const struct trail_table *table);
	void *data;
};

/*
 * Tell of a thread's branches, oldest first; ends early where writing has failed. 0, or era()'s
 * error.
 */
int taken_walk(struct export *export, const struct export_thread *thread,
	       const struct taken_sink *sink);

#endif
