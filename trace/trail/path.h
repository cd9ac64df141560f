/* SPDX-License-Identifier: MIT */
/*
 * The trails of a trace, read: for each thread the blocks that it ran and what stood between, as
 * one sequence that one can walk both ways.
 *
 * All is checked when it is read: each block must be defined and may follow the one before
 * (abi/trail.h). A trail that breaks a rule ends there, and the reader has it put down as damage.
 *
 * One thread at a time reads; then any number may walk.
 */
#ifndef TRACE_TRAIL_PATH_H
#define TRACE_TRAIL_PATH_H

#include "base/slots.h"
#include "trace/packet_walk.h"
#include "trace/reader.h"
#include "trace/trail/module_epochs.h"
#include "trace/trail/table.h"

#include <stddef.h>
#include <stdint.h>

/*
 * The threads that have a trail according to the trace (trail:thread of abi/trail.h), and which of
 * these trails are missing.
 */
struct trail_thread_entry {
	uint32_t process; /* which of the reader's facts' */
	uint32_t tid;
	uint64_t blocks;  /* of its trails that are over */
	uint64_t over;	  /* trails */
	const char *file; /* that lists it */
	int is_missing;	  /* it has no stream */
};

struct trail_threads {
	struct trail_thread_entry
		*all; /* by process and tid, each once; while they are read: as they come */
	size_t count, room;
};

/* The entry of a thread, or NULL. */
const struct trail_thread_entry *trail_threads_find(const struct trail_threads *threads,
						    uint32_t process, uint32_t tid);

/* A table, and whose it is. */
struct trail_space {
	uint32_t process; /* which of the reader's facts' */
	uint32_t number;
	int is_told; /* its epoch is known (module_epochs.h) */
	struct trail_table table;
};

/* The event between two blocks. */
struct trail_between {
	uint64_t at;
	uint32_t left;
	uint8_t event;	    /* enum trail_event */
	uint8_t has_at;	    /* `at` is where it was, or continues: 0 too, if it jumped there */
	uint64_t values[2]; /* the fields behind */
};

/* Whether the thread ran unrecorded there. */
static inline int trail_is_gap(const struct trail_between *between)
{
	return between->event == TRAIL_GAP && between->values[0] != TRAIL_GAP_BREAKPOINT;
}

/* A run of blocks, or one event. */
struct trail_part {
	uint64_t ticks;
	uint64_t before; /* blocks of the path before this part */
	const uint8_t *ids;
	uint32_t count; /* of blocks; 0: an event */
	uint16_t words; /* of ids, or UINT16_MAX where there are more */
	uint8_t skip;	/* of the first id's path, so many blocks come before the part */
	/* ids may mean several blocks, see struct trail_run; else each is a block */
	uint8_t has_paths;
	struct trail_between between;
	const struct trail_table
		*table; /* of an event: the table with the block at `at`; NULL: none */
};

/* What a thread had when a signal killed it: enum trail_value. */
struct trail_values {
	uint64_t of[TRAIL_VALUES];
	uint8_t has[TRAIL_VALUES];
};

/* A thread's trail. */
struct trail_path {
	const struct trace_stream *stream; /* its first: process, pid, tid, comm */
	struct trail_part *parts;
	size_t count, room;
	uint64_t blocks;
	uint32_t origin, flags; /* of its first trail:begin */
	const char *damage;	/* why it ends here; NULL: it is whole */
	struct trail_values
		*values; /* NULL: no signal killed it, or the recorder did not keep them */
};

struct trails {
	struct trail_space *spaces;
	size_t space_count, space_room;
	struct slots space_slots; /* of `spaces` */
	struct trail_path *paths; /* in the order of the reader's streams */
	size_t path_count;
	struct trail_threads threads;
	uint64_t read_bytes; /* of the streams that were gone through */
};

/* The epochs of a process's modules, as its writer had them. 0 or -ENOMEM; to be released. */
int trails_epochs_read(struct module_epochs *epochs, const struct fact_process *process);

/*
 * Read all trails of a trace, whose streams then stay mapped: the reader must outlive them, and
 * must not unmap them. 0, also without trails, or if some are damaged; -errno. Release also after
 * an error.
 */
int trails_read(struct trails *trails, struct trace_reader *reader);
void trails_release(struct trails *trails, struct trace_reader *reader);

/* ---- walking ---- */

/* Consecutive blocks of a part whose ids are adjacent: all of it, or those of one path. */
struct trail_run {
	const struct trail_part *part;
	const uint8_t *ids;
	uint32_t first, count; /* of the part's blocks */
	/* so many of them surely ran; not counted is a last block that may have run in part */
	uint32_t sure;
	uint32_t word; /* which of the part's ids the path is */
};

/*
 * A place between two items of a path. Zeroed except `path`: before the first. Only `part` and `id`
 * matter.
 */
struct trail_cursor {
	const struct trail_path *path;
	size_t part;
	uint32_t id;	      /* of part's blocks */
	struct trail_run run; /* the last that was looked at */
};

struct trail_item {
	const struct trail_block *block; /* NULL: an event */
	const struct trail_table *table; /* an event's: as trail_part has it */
	const struct trail_between *between;
	uint64_t index; /* the block's, or of the block that follows */
	uint64_t ticks; /* no later than this; an event's own */
	uint32_t id;
	uint16_t ran; /* the block's instructions that ran */
};

/* Step over an item: 1 and *item, or 0 at the end. */
int trail_next(struct trail_cursor *cursor, struct trail_item *item);
int trail_previous(struct trail_cursor *cursor, struct trail_item *item);

/* The run of the block behind the cursor, which must exist. */
const struct trail_run *trail_cursor_run(struct trail_cursor *cursor);

/* The id of a block of that run. */
static inline uint32_t trail_run_id(const struct trail_run *run, uint32_t id)
{
	return load_u32(run->ids + 4 * (size_t)(id - run->first));
}

/* The id of a block of a part, by its place there. Slow where it has paths. */
uint32_t trail_part_id(const struct trail_part *part, uint32_t id);

/* Go to before the block of that index; past the last: to the end. */
void trail_seek(struct trail_cursor *cursor, uint64_t index);
void trail_seek_end(struct trail_cursor *cursor);

#endif
