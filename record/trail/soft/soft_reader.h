/* SPDX-License-Identifier: MIT */
/*
 * What an engine's threads wrote into their rings (abi/engine.h), put into a sink: ids as the
 * blocks of their paths, and events. The engine's process may do anything to the channel; what
 * breaks a rule becomes TRAIL_LOST.
 *
 * One thread at a time uses a reader.
 */
#ifndef RECORD_TRAIL_SOFT_SOFT_READER_H
#define RECORD_TRAIL_SOFT_SOFT_READER_H

#include "record/trail/sink.h"
#include "record/trail/soft/soft_channel.h"
#include "record/trail/soft/soft_clock.h"
#include "record/trail/soft/soft_paths.h"
#include "trace/trail/module_epochs.h"

/* What is known of the process. */
struct soft_source {
	struct trail_sink *sink; /* NULL: nothing is taken of it */
	struct soft_paths paths;
	const struct module_epochs *epochs; /* of its modules; NULL: none are known */
	struct sink_thread *
		/*
		 * a trail that continues in an executed program, until that has a thread; or NULL
		 */
		carried;
	uint64_t carried_ns;
	int is_seen; /* it has, or had, a trail */
	pid_t pid;   /* of a child, and its name: for one that never wrote anything */
	char comm[17];
};

struct soft_thread {
	struct sink_thread *trail;
	int is_begun, is_over; /* is_over: a TRAIL_END came; nothing may follow */
	int has_left;	       /* the last event was a TRAIL_EXEC, and is not yet put */
	int is_lost;	       /* the last event was a TRAIL_LOST */
	int has_moment;	       /* the sink knows `moment` */
	uint32_t moment;       /* the latest of its paths' */
	uint64_t next;	       /* the number of the segment to be taken next */
	uint32_t part;	       /* so many words of that one were taken already */
	uint64_t skip;	       /* so many blocks are older than those that are wanted */
	uint64_t blocks;       /* that the thread had written up to that place, taken or not */
	uint64_t missing;      /* of these, not taken, and no TRAIL_LOST says so yet */
	uint64_t last_ns;
	/* a signal came that it has no handler for: its end, most likely, is what comes next */
	int is_dying;
	struct trail_between dying;
	uint64_t dying_ns;
};

/* One for each process. The first process's has what all of a recording share. */
struct soft_reader {
	struct soft_channel *channel;
	struct soft_source source;
	struct soft_thread *threads; /* of each slot that is used */
	uint32_t used;		     /* slots, the first: none behind them was ever taken */
	size_t room;		     /* for so many in `threads` */
	uint32_t turn;		     /* the slot that is looked at next, modulo */
	struct soft_reader *first;   /* perhaps this one. Only the first's uses what follows */
	struct soft_clock clock;
	uint32_t *words; /* a segment, copied */
	uint64_t blocks, losses;
	uint64_t overwritten; /* blocks before those and between them, by the engines' own count */
	uint64_t words_put;   /* that encoded these blocks */
	pid_t killed_tid;     /* whose signal ended the last process that ended; 0: not known */
	/* of a thread that overwrites its own: no more are wanted; 0: all that are there */
	uint64_t newest_blocks;
	int error; /* of the sink, or -ENOMEM; the first: nothing is taken any more */
};

/* `channel` and `sink` are the caller's. 0 or -ENOMEM. Release it also after an error. */
int soft_reader_init(struct soft_reader *reader, struct soft_channel *channel,
		     struct trail_sink *sink);

/*
 * The same for another process of the recording, with channels of the same sizes. It has no sink
 * yet, and perhaps no channel. It is a copy of `of`, whose ids below first_id it has; 0: none.
 */
int soft_reader_init_child(struct soft_reader *reader, struct soft_reader *of, uint32_t first_id);

/* How many slots to look at, from the first: untouched memory stays unallocated. */
uint32_t soft_reader_used(struct soft_reader *reader);

/*
 * Take what is to be taken while the engine runs: the logs; of one thread that has something, in
 * turn, segments that are full, unless it overwrites them itself, or all, if it has ended. 1: there
 * was something, 0: nothing, or the first error.
 */
int soft_reader_take(struct soft_reader *reader);

/* Take all there is while the engine runs, also of partly full segments. 0 or the first error. */
int soft_reader_fetch(struct soft_reader *reader);

/*
 * Of a process that has ended, or that is let go: take all there is, in its present state, and end
 * all threads. `end` is what a thread's trail ends with that has no end of its own; NULL: unknown,
 * so TRAIL_LOST. Best when no engine writes any more: what is overwritten meanwhile is lost. A
 * child that has no trail gets one. 0 or the first error.
 */
int soft_reader_end(struct soft_reader *reader, const struct trail_between *end);

/*
 * The same, if a thread of it has executed another program: that thread's trail continues. If
 * nothing was recorded of it, it gets a trail, as `tid` and `comm`. The channel is needed no more:
 * another follows, of the same address. Returns 0 or the sink's error.
 */
int soft_reader_executed(struct soft_reader *reader, pid_t former, pid_t tid, const char *comm);

/* The executed program is not recorded: the trail that would continue ends, as `end` says. */
void soft_reader_drop_carried(struct soft_reader *reader, const struct trail_between *end);

void soft_reader_release(struct soft_reader *reader);

#endif
