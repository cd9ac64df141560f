/* SPDX-License-Identifier: MIT */
/*
 * A sink (sink.h) that keeps the trails of a process in memory, in no more bytes than were asked
 * for. One mapping of that size has all of it: records, what their blocks are, threads, modules.
 *
 * The mapping is divided into chunks. Each belongs to one thread's records, or to the table of
 * blocks. When none is free, WM_POLICY_CYCLIC takes the oldest of the thread that has most; so each
 * thread keeps its newest, and a busy thread does not push out another. Threads that have one chunk
 * each keep it until they end; of those that ended, the first loses all. Blocks that no kept record
 * needs are dropped from the table when it has grown to its share, three quarters, or when nothing
 * else is free. If no such block is left, the oldest records are dropped first.
 *
 * The other policies lose what comes while nothing is free. All losses are counted, with a
 * TRAIL_LOST at each place; one of 0 blocks where events alone are missing. How a thread ended is
 * never lost while it has records. A block's time is that of the last record of its chunk: it was
 * no later.
 *
 * One thread at a time uses a store. A forked child does not have it.
 */
#ifndef RECORD_TRAIL_STORE_H
#define RECORD_TRAIL_STORE_H

#include "record/trail/sink.h"

#include <stdint.h>
#include <waymark/session.h>
#include "abi/trail.h"
#include <stddef.h>

struct trail_store;
struct store_thread;

#define TRAIL_STORE_BYTES_MIN 32768u
#define TRAIL_STORE_BYTES_MAX (UINT64_C(1) << 36)
#define STORE_NO_EPOCH UINT32_MAX /* of a block whose epoch is unknown */

struct trail_store_options {
	uint64_t bytes; /* rounded down to whole pages */
	enum wm_policy policy;
	uint64_t watermark_bytes;    /* WM_POLICY_NOTIFY: in use; 0: half */
	void (*reached)(void *data); /* at the watermark, once; again after the store was below */
	void *data;
	/* by mlock(2), so that it counts against RLIMIT_MEMLOCK as the kernel does it */
	int is_locked;
};

struct trail_store_status {
	uint64_t bytes, used_bytes;	     /* that it may have; of these in use */
	uint64_t table_bytes;		     /* of these for what the blocks are */
	uint64_t blocks, events;	     /* kept */
	uint64_t lost_blocks, lost_events;   /* ever, of what was put */
	uint64_t missing_blocks;	     /* ever, by each TRAIL_LOST that was put */
	uint64_t lost_threads, lost_modules; /* that there was no room to note */
	uint32_t threads, live;		     /* that have records, or live; that live */
	int is_full;			     /* something is missing at the end */
};

/*
 * 0; -EINVAL for fewer than TRAIL_STORE_BYTES_MIN or more than TRAIL_STORE_BYTES_MAX bytes,
 * -ENOMEM; -EPERM or -ENOMEM of mlock(2). Close with trail_store_close(), which allows NULL, after
 * all threads have ended.
 */
int trail_store_open(struct trail_store **store, const struct trail_store_options *options);
void trail_store_close(struct trail_store *store);

/*
 * For an origin to fill. Its begin() does nothing: a store can be given another process after
 * trail_store_clear().
 */
struct trail_sink *trail_store_sink(struct trail_store *store);

/*
 * Set the process whose threads begin, and whose modules are reported, from now on: not needed for
 * a single process.
 */
void trail_store_process(struct trail_store *store, pid_t pid);

/*
 * Whether the next records might find no room: with WM_POLICY_BLOCK the origin asks (sink.h) and
 * continues no thread. Never while nothing is kept.
 */
int trail_store_is_full(struct trail_store *store);

/* Forget all records, and what was lost before; live threads continue. */
void trail_store_clear(struct trail_store *store);

void trail_store_status(const struct trail_store *store, struct trail_store_status *status);

/*
 * Write all that is kept to another sink, whose begin() the caller has called: modules, then each
 * thread's trail, the threads' oldest first. The store stays as it was. 0, or the sink's first
 * error. Live threads have no TRAIL_END in it, and continue in the store.
 */
int trail_store_write(struct trail_store *store, struct trail_sink *to);

/* ---- record by record ---- */

/* A block or an event. Pointers are the store's, until its next change. */
struct store_record {
	const struct trail_entry *entry; /* NULL: an event */
	const uint8_t *code;		 /* the block's, or NULL */
	uint32_t from;			 /* the block's epoch (module_epochs.h); STORE_NO_EPOCH */
	uint32_t id; /* the block's, below trail_store_ids(), until the next change */
	struct trail_between between;
	uint64_t ticks;
};

/*
 * The threads, in the order in which they began; NULL: no more. Threads that ended and have no
 * records are gone.
 */
struct store_thread *trail_store_thread(struct trail_store *store, struct store_thread *before);
pid_t store_thread_tid(const struct store_thread *thread);
pid_t store_thread_pid(const struct store_thread *thread); /* 0: unknown */

/* No other thread of the store ever has that number. Whether nothing more comes of it. */
uint64_t store_thread_number(const struct store_thread *thread);
int store_thread_is_over(const struct store_thread *thread);

/* Records of a thread, events of loss and end included. */
uint64_t store_thread_records(const struct store_thread *thread);

/* The record of that index, 0 being the newest. 1, or 0: no such record. */
int store_thread_record(struct trail_store *store, const struct store_thread *thread,
			uint64_t index, struct store_record *record);

/* The block that stood before the oldest record, where that was taken out; else NULL. */
const struct trail_entry *store_thread_taken(const struct store_thread *thread);

uint32_t trail_store_ids(const struct trail_store *store);

/* Go through them, oldest first, until the callback returns other than 0, which is returned. */
int store_thread_each(struct trail_store *store, const struct store_thread *thread,
		      int (*each)(const struct store_record *record, void *data), void *data);

/*
 * Tell a sink, which needs no more calls than that, of a process's modules; pid 0: of all. 0, or
 * its error.
 */
int trail_store_modules(const struct trail_store *store, pid_t pid, struct trail_sink *to);

/*
 * Take the oldest record out. 1, or 0: none is left; a thread that has ended is gone then.
 * *record's pointers are valid until the next record is taken or put.
 */
int store_thread_take(struct trail_store *store, struct store_thread *thread,
		      struct store_record *record);

#endif
