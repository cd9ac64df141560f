/* SPDX-License-Identifier: MIT */
/* A store's own: its threads and their records. For store*.c alone. */
#ifndef RECORD_TRAIL_STORE_OWN_H
#define RECORD_TRAIL_STORE_OWN_H

#include "record/trail/store.h"
#include "record/trail/store_blocks.h"
#include "record/trail/store_pool.h"

#include <string.h>

/*
 * A record is an id, one word, or an event: EVENT_WORDS, the first of them IS_EVENT and its kind.
 */
#define IS_EVENT 0x80000000u
#define EVENT_WORDS 10u

/* A chunk of a thread's records. */
struct store_run {
	uint32_t newer;
	uint32_t begin, end; /* of words: those that are taken out, or not yet there, lie outside */
	uint32_t blocks, events;
	uint32_t reserved;
	uint64_t ticks; /* of the last */
	uint32_t words[];
};

struct store_loss {
	uint64_t blocks, events;
	int is_unknown; /* and blocks whose number is unknown */
};

struct store_thread {
	struct store_thread *next; /* by begin; or the next free one */
	pid_t pid, tid;
	uint64_t number; /* no other thread of the store ever has it */
	char comm[16];
	enum trail_origin origin;
	uint32_t from;	/* the epoch of its next blocks; STORE_NO_EPOCH */
	uint64_t ticks; /* of its begin, and of the last that was taken out */
	uint32_t oldest, newest, runs;
	uint64_t blocks, events;
	struct store_loss before, behind; /* missing: before the oldest, behind the newest */
	struct trail_between end;
	uint64_t end_ticks; /* of the end, and of the last that was lost behind */
	int has_end, is_over;
	int has_taken;
	struct trail_entry taken; /* what stood before the oldest */
};

/* Bytes that follow each other through chunks. */
struct store_log {
	uint32_t first, last, chunks;
	uint32_t used; /* of the last */
};

struct trail_store {
	struct trail_sink sink;
	struct trail_store_options options;
	uint64_t bytes;
	struct store_pool pool;
	struct store_blocks blocks;
	struct store_log modules;
	struct store_thread *threads, *free_threads;
	struct store_thread *asking; /* whose record is being put */
	uint32_t live;
	uint64_t threads_ever;
	uint64_t lost_blocks, lost_events, missing_blocks, lost_modules, lost_threads;
	int is_reached;
	int has_epochs; /* of some thread's blocks */
	pid_t pid;	/* whose threads begin */
	/*
	 * The state at the signal that ended the process and so its store (TRAIL_VALUE). It is not
	 * among the records, and takes no room of the newest ones.
	 */
	const struct store_thread *valued; /* whose; NULL: no thread's */
	uint64_t values[TRAIL_VALUES];
	uint8_t has_value[TRAIL_VALUES];
};

static inline struct store_run *store_run_at(const struct trail_store *store, uint32_t chunk)
{
	return store_pool_at(&store->pool, chunk);
}

static inline uint32_t store_run_words(const struct trail_store *store)
{
	return (store->pool.chunk_bytes - (uint32_t)sizeof(struct store_run)) / 4;
}

static inline int store_loss_is_any(const struct store_loss *loss)
{
	return loss->blocks || loss->events || loss->is_unknown;
}

/* A TRAIL_LOST for it. */
static inline struct trail_between store_loss_event(const struct store_loss *loss)
{
	return (struct trail_between){ .event = TRAIL_LOST,
				       .values = { loss->is_unknown ? 0 : loss->blocks, 0 } };
}

/* The event whose first word is `head`. */
static inline void store_event_read(const uint32_t *head, struct trail_between *between,
				    uint64_t *ticks)
{
	*between = (struct trail_between){ .event = (uint8_t)head[0], .left = head[1] };
	memcpy(&between->at, head + 2, 8);
	memcpy(between->values, head + 4, 16);
	memcpy(ticks, head + 8, 8);
}

/* Free the thread's oldest run, and the blocks that no other run needs. */
void store_run_remove(struct trail_store *store, struct store_thread *thread);

/* See to it that a chunk is free, by the policy. Whether one is. */
int store_make_way(struct trail_store *store);

/* The thread is over and has nothing left: it is gone. */
void store_thread_remove(struct trail_store *store, struct store_thread *thread);

/* Some is free again: below the watermark it may be reached once more. */
void store_mark_rewind(struct trail_store *store);

uint64_t store_used_bytes(const struct trail_store *store);

/* ---- modules ---- */

/* 0, or -ENOSPC: they have their share. */
int store_module_add(struct trail_store *store, const struct control_module *module,
		     const char *path);

/* When a module was noted, and its process. */
struct store_noted {
	uint64_t ticks;
	pid_t pid;
};

/* A place in the log, behind the modules that were reported. */
struct store_log_place {
	pid_t pid; /* whose modules are reported; 0: all */
	uint32_t chunk, at;
	struct store_noted next;
	int has_next;
};

void store_modules_begin(const struct trail_store *store, pid_t pid, struct store_log_place *place);

/*
 * Report to a sink the modules that were noted before that time, and not reported yet. 0, or its
 * error.
 */
int store_modules_tell(const struct trail_store *store, struct store_log_place *place,
		       uint64_t ticks, struct trail_sink *to);

#endif
