/* SPDX-License-Identifier: MIT */
/*
 * A thread's trail out of a store, in the form of one that was read (trace/trail/path.h), so that
 * the same cursors walk both; and records by index in any of them.
 */
#ifndef RECORD_TRAIL_SNAPSHOT_H
#define RECORD_TRAIL_SNAPSHOT_H

#include "record/trail/branch.h"
#include "record/trail/store.h"
#include "trace/facts.h"
#include "trace/trail/path.h"

#include <stddef.h>
#include <stdint.h>

/* Of the blocks of one epoch. */
struct snapshot_table {
	struct snapshot_table *next;
	uint32_t from;
	uint32_t defined;
	struct trail_table table;
};

struct snapshot {
	struct trail_path path;
	struct snapshot_table *tables;
	struct fact_process process; /* its modules alone */
	uint8_t *ids;
	size_t id_count, id_room;
};

/* 0 or -ENOMEM. Release also after an error. Nothing of the store is needed any more. */
int snapshot_take(struct snapshot *snapshot, struct trail_store *store,
		  const struct store_thread *thread, pid_t pid);
void snapshot_release(struct snapshot *snapshot);

/* Records of a path: blocks and events, counted. */
struct path_index {
	const struct trail_path *path;
	uint64_t *before; /* each part */
	uint64_t records;
};

/* 0 or -ENOMEM. */
int snapshot_path_init(struct path_index *index, const struct trail_path *path);
void snapshot_path_release(struct path_index *index);

/* Go to before the record of that number, the oldest being 0; past the last: to the end. */
void snapshot_path_seek(const struct path_index *index, uint64_t number,
			struct trail_cursor *cursor);

/* The record of the item before `cursor`. */
void snapshot_branch(const struct trail_cursor *cursor, struct branch_thread of,
		     struct wm_branch *branch);

#endif
