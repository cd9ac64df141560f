/* SPDX-License-Identifier: MIT */
/*
 * Where an origin puts what the threads of a process did: into a trace's files (trace_sink.h), or a
 * store in memory. An origin knows blocks by address and code, and gives no ids.
 *
 * One thread at a time uses a sink. Functions return 0 or a negative error. Times are ticks of
 * CLOCK_MONOTONIC.
 */
#ifndef RECORD_TRAIL_SINK_H
#define RECORD_TRAIL_SINK_H

#include "abi/control.h"
#include "trace/trail/addressed.h"
#include "trace/trail/path.h"

#include <sys/types.h>

struct trail_sink;
struct sink_thread; /* the sink's own */

/* A process that one which is recorded has made, before its first instruction. */
struct sink_process {
	pid_t pid, ppid;
	uint64_t start_time; /* field 22 of /proc/PID/stat */
	const char *exe;
};

/* What became of a process. */
struct sink_ending {
	int32_t is_over; /* it has ended; else it was let go */
	int32_t status;	 /* then: as wait(2) has it */
	/* the thread that a signal was given to which ended it, and that signal; 0: none */
	int32_t killed_tid, killed_by;
	int32_t is_foreign; /* it executed a program that is not x86-64, and was let go there */
};

struct trail_sink_calls {
	/* The process is there. Once, before all else. */
	int (*begin)(struct trail_sink *sink, pid_t pid);
	/* It has code in this module from now on, or, with `gone`, has it no more. */
	int (*module)(struct trail_sink *sink, const struct control_module *module,
		      const char *path);
	/* A thread's trail begins; *thread is for the calls below, until thread_end(). */
	int (*thread_begin)(struct trail_sink *sink, struct sink_thread **thread, pid_t tid,
			    const char *comm, enum trail_origin origin, uint64_t ticks);
	/* It has another name, as it has executed a program. NULL: the sink does not need it. */
	int (*thread_name)(struct trail_sink *sink, struct sink_thread *thread, const char *comm);
	/*
	 * The thread's next blocks ran in the epoch of that name (trace/trail/module_epochs.h), of
	 * which module() got a part already. Without it, in the latest. NULL: the sink has no
	 * names.
	 */
	int (*since)(struct trail_sink *sink, struct sink_thread *thread, uint32_t from);
	/*
	 * It ran a block, no later than `ticks`. `code`: the block's bytes, or NULL where they
	 * can't be had.
	 */
	int (*block)(struct trail_sink *sink, struct sink_thread *thread,
		     const struct trail_entry *entry, const uint8_t *code, uint64_t ticks);
	int (*event)(struct trail_sink *sink, struct sink_thread *thread,
		     const struct trail_between *between, uint64_t ticks);
	/* Nothing more comes of it; releases the thread, also after an error. */
	int (*thread_end)(struct trail_sink *sink, struct sink_thread *thread, uint64_t ticks);
	/*
	 * 1: the sink is full until its reader drains it, so the origin continues no thread. It may
	 * still write what running threads do, and for each a block and some events. NULL: never
	 * full.
	 */
	int (*is_full)(struct trail_sink *sink);
	/*
	 * The process has made another, which is recorded as well: into *child, which has begun,
	 * until process_end() of that. NULL: children are to be left alone.
	 */
	int (*child)(struct trail_sink *sink, struct trail_sink **child,
		     const struct sink_process *process);
	/*
	 * Nothing more comes of the process, whose threads have all ended. Releases a child's sink.
	 * NULL where child() is.
	 */
	int (*process_end)(struct trail_sink *sink, const struct sink_ending *ending);
	/*
	 * It ran all of a path's blocks, no later than `ticks`: for an origin whose blocks come
	 * again and again in the same order. NULL: the origin has to use block(); so it is where
	 * is_full() is.
	 */
	int (*path)(struct trail_sink *sink, struct sink_thread *thread,
		    const struct trail_source_path *path, uint64_t ticks);
};

struct trail_sink {
	const struct trail_sink_calls *calls;
};

#endif
