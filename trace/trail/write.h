/* SPDX-License-Identifier: MIT */
/*
 * Trails written from outside the program, for origins that know each block's address and code:
 * blocks, and paths, get their ids here, each thread has a stream, and one more of the process has
 * what the ids mean.
 *
 * Definitions are on disk before blocks that use them. Each epoch of the process's modules
 * (module_epochs.h) has a table, in a space of its own. Tables that have grown too large (a program
 * may make code for ever) give way to new ones. One thread at a time uses a writer and its threads.
 * Functions return 0 or a negative error. After one they write nothing more and return it again, so
 * that no block is written whose definition is missing.
 */
#ifndef TRACE_TRAIL_WRITE_H
#define TRACE_TRAIL_WRITE_H

#include "base/slots.h"
#include "trace/trail/addressed.h"
#include "trace/trail/module_epochs.h"
#include "trace/trail/path.h"
#include "trace/writer.h"

#define TRAIL_RUN_IDS (FIELD_BYTES_MAX / 4)

/*
 * Of all tables: blocks, code and slots. Some three million blocks, and no real program without a
 * JIT has so many.
 */
#define TRAIL_TABLE_BYTES_MAX (256u << 20)

/* All clocks at one moment; `hz` is the rate of the ticks. */
struct trail_clock {
	uint64_t ticks, hz, monotonic_ns, monotonic_raw_ns, realtime_ns;
};

/* A packet being filled. */
struct trail_packet {
	struct wm_packet head;
	uint8_t *content;
	uint32_t bytes;
	uint64_t ticks;	 /* of its last event */
	uint64_t blocks; /* in it */
};

/* What an origin's path is called here. */
struct trail_known {
	uint32_t space, id; /* space + 1; 0: it has no name */
};

/* The table of an epoch. */
struct trail_written {
	uint32_t space;
	int is_begun;
	struct trail_table table; /* of `space`, as a reader will have it */
	struct slots slots;	  /* of ids, by start and code */
};

struct trail_writer {
	struct trace_writer *writer;
	int process;
	struct trail_clock clock;
	uint32_t first_class; /* the trail's classes have ids from here on */
	uint32_t next_instance;
	struct module_epochs epochs;
	uint32_t epoch;		       /* the index of that whose table is `now` */
	struct trail_written now;      /* may not have begun yet */
	struct trail_written *written; /* of the others, by their epochs' indices */
	size_t written_room;
	size_t written_bytes;	   /* of their tables */
	uint32_t next_space;	   /* a number that none has had */
	size_t table_bytes_max;	   /* of all tables: TRAIL_TABLE_BYTES_MAX; tests take less */
	struct trail_known *known; /* of an origin's paths, by number */
	size_t known_room;
	struct trail_packet packet; /* of definitions */
	uint8_t *run;		    /* the next trail:define */
	uint32_t run_bytes, run_first;
	int error; /* the first of writing a packet */
	/* in the folder: blocks, and threads with at least one */
	uint64_t blocks_written;
	uint32_t threads_written;
};

struct trail_thread {
	struct trail_packet packet;
	uint32_t ids[TRAIL_RUN_IDS];
	uint32_t count;
	uint32_t space; /* of the ids */
	uint32_t from;	/* trail_thread_since() */
	int has_from;
	uint64_t blocks; /* so far */
	uint64_t put;	 /* of these, in a packet */
};

/*
 * Begin to write trails of a process, which the trace has as `process` and `pid`. Its events with
 * ids from first_class on, TRAIL_CLASSES of them, are the trail's; times are ticks of `clock`.
 * Release also after an error.
 */
int trail_writer_open(struct trail_writer *trail, struct trace_writer *writer, int process,
		      uint32_t pid, uint32_t first_class, const struct trail_clock *clock);
void trail_writer_release(struct trail_writer *trail);

/*
 * The process has code in this module from now on, or, with `gone`, no longer: noted in the trace.
 * Its code runs later than this, that of others has run. Report all of a process's modules here, or
 * no module.
 */
int trail_writer_module(struct trail_writer *trail, const struct control_module *module,
			const char *path);

/* Begin a thread's trail. *thread is the caller's; trail_thread_end() releases what is in it. */
int trail_thread_begin(struct trail_writer *trail, struct trail_thread *thread, uint32_t tid,
		       const char *comm, enum trail_origin origin, uint64_t ticks);

/*
 * The thread's next blocks ran in the epoch of that name (module_epochs.h): for an origin that is
 * drained late. Without it, in the latest.
 */
void trail_thread_since(struct trail_thread *thread, uint32_t from);

/* A block that the thread ran, whose time is no later than `ticks`. `code`: its bytes, or NULL. */
int trail_thread_block(struct trail_writer *trail, struct trail_thread *thread,
		       const struct trail_entry *entry, const uint8_t *code, uint64_t ticks);

/*
 * All the blocks of a path: they take four bytes, once its number is known. Others are written
 * block by block.
 */
int trail_thread_path(struct trail_writer *trail, struct trail_thread *thread,
		      const struct trail_source_path *path, uint64_t ticks);

/* An event after it. */
int trail_thread_event(struct trail_writer *trail, struct trail_thread *thread,
		       const struct trail_between *between, uint64_t ticks);

/* Write all that is known so far to the folder. */
int trail_thread_flush(struct trail_writer *trail, struct trail_thread *thread, uint64_t ticks);

/* Flush, release. */
int trail_thread_end(struct trail_writer *trail, struct trail_thread *thread, uint64_t ticks);

#endif
