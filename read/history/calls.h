/* SPDX-License-Identifier: MIT */
/*
 * The calls of a thread: its trail walked from its beginning, with the stack of calls that its
 * branches imply.
 *
 * A trail has no stack pointer, so the stack is inferred:
 *
 * - A call pushes a frame, with the address that it returns to.
 * - A return pops the frame that waits for its address, and those above it. So frames that
 *   longjmp() and exceptions leave are left here too.
 * - Code that continues in the middle of a function, as behind those, pops down to that function's
 *   nearest frame.
 * - A jump to a function's beginning is a tail call, and replaces the frame. So does any
 *   unexplained branch, and the stack grows by nothing but calls and signals.
 * - Frames from before the trail began are found when a return enters them.
 *
 * Where blocks were lost, the frames from before are a guess until one of them is returned to
 * (calls_is_unsure()).
 *
 * Each block costs a constant. One thread at a time uses a walk; several walks may share no
 * functions.
 */
#ifndef READ_HISTORY_CALLS_H
#define READ_HISTORY_CALLS_H

#include "read/history/functions.h"
#include "trace/trail/range.h"

#include <stddef.h>
#include <stdint.h>

/*
 * More frames than the stack of a thread has room for, usually; calls beyond are counted, not
 * shown.
 */
#define CALLS_DEPTH_MAX (1u << 19)

/* How a frame came. */
enum call_how {
	CALL_CALLED,	/* a call */
	CALL_JUMPED,	/* a tail call: in place of the frame that jumped */
	CALL_SIGNALLED, /* a signal's handler */
	CALL_FOUND,	/* it was there already, or it is unknown how it came */
};

/* How a frame went. */
enum call_end {
	CALL_RETURNED,
	CALL_REPLACED, /* another comes in its place */
	CALL_UNWOUND,  /* control passed it by: longjmp(), an exception, another stack */
	CALL_LOST,     /* blocks are missing; unknown */
	CALL_EXECED,   /* the program was replaced */
	CALL_OPEN,     /* it has not ended: the trail, or the range, ends here */
};

struct call_frame {
	const struct function *function;
	/* of its blocks: the function, or its module's nameless one */
	const struct function *region;
	const struct trail_table *table; /* of its first block */
	uint64_t address;		 /* where it was entered */
	uint64_t from; /* the instruction that called or jumped, or was interrupted; 0: not known */
	uint64_t back; /* where it returns to, or what a signal interrupted; 0: not known */
	uint64_t resume;	       /* where a setjmp() that it called returns to; 0: none was */
	uint64_t index;		       /* its first block, of the path's */
	uint64_t ticks;		       /* when it came, at the latest */
	uint64_t earliest_ticks;       /* and at the earliest; 0: not known */
	uint64_t blocks, instructions; /* that ran in itself */
	uint64_t total_blocks, total_instructions; /* and in what it called: once it goes */
	uint32_t locals;   /* calls within the function that have not returned */
	uint32_t signal;   /* its number, of a handler's frame and what replaced it */
	uint8_t how;	   /* enum call_how */
	uint8_t sets_jump; /* it is setjmp(), or came in its place */
};

enum call_change_kind {
	CALL_ENTER, /* `frame` has come */
	CALL_LEAVE, /* `frame` is gone, for `end` */
	CALL_BLOCK, /* `item` ran, in `frame` */
	CALL_EVENT, /* `item` is an event; `frame` is the innermost, or NULL */
};

struct call_change {
	enum call_change_kind kind;
	enum call_end end;
	uint32_t depth;			/* of the frame: 0 is the outermost */
	const struct call_frame *frame; /* until the next call of calls_next() */
	const struct trail_item *item;	/* what led to it; NULL at the end */
};

enum calls_state { CALLS_BEGIN, CALLS_AFTER, CALLS_HERE, CALLS_HANDLER, CALLS_ANYWHERE };

/* A walk. Its members are its own, except as calls_*() say. */
struct calls {
	struct functions *functions;
	struct trail_cursor cursor;
	struct trail_cursor until, stop; /* it ends there; it pauses there */
	int stops;
	int has_items; /* blocks and events are reported, too */
	/* the stack */
	struct call_frame *frames;
	size_t room;
	uint32_t depth;
	uint32_t unsure; /* so many of the outermost frames are a guess */
	uint64_t beyond; /* calls past CALLS_DEPTH_MAX that have not returned */
	uint64_t beyond_ever;
	uint64_t instructions, blocks; /* that ran so far */
	/* the thread's place: after `before`, or at `next` */
	enum calls_state state;
	const struct trail_block *before;
	uint64_t next;
	int is_gap; /* what ran in between may have called what comes now */
	/* and did, or was returned from: it was other modules' code, left out as was asked */
	int is_away;
	uint32_t signal;
	uint64_t interrupted;
	uint64_t earliest_ticks;
	uint64_t credit; /* frames that a search which finds nothing may look at */
	int sets_jumps;	 /* setjmp() was called at all */
	/* still to be reported */
	struct trail_item item;
	int has_item, is_over;
	uint32_t keep;		     /* frames that stay */
	enum call_end end, last_end; /* of those that go, and of the outermost of them */
	int enters;
	struct call_frame entering;
};

/*
 * Begin to walk a path, whose process `functions` is of; both must live longer. With `has_items`
 * blocks and events are changes, too. Release with calls_release().
 */
void calls_init(struct calls *calls, const struct trail_path *path, struct functions *functions,
		int has_items);
void calls_release(struct calls *calls);

/*
 * Walk up to the end of a range of the path, instead of its own, and report only changes in it. The
 * blocks before are walked here. The frames that are there already are calls->frames[calls->depth].
 * Before the first calls_next(). 0 or -ENOMEM.
 */
int calls_range(struct calls *calls, const struct trail_range *range);

/*
 * The next change: 1 and *change, 0 at the end, or -ENOMEM. Each frame that came goes, at the end
 * at the latest; those above it before.
 */
int calls_next(struct calls *calls, struct call_change *change);

/*
 * The path (abi/trail.h) that comes next, if all that came before it was reported; else NULL. For a
 * walk that need not see each block.
 */
const struct trail_run *calls_path(struct calls *calls);

/*
 * Step over that path. All of its blocks are code of `region`, and no call or return is between
 * them. Frames do not count these blocks. 1; 0: the thread does not continue in the innermost
 * frame, so calls_next() must take the path.
 */
int calls_pass(struct calls *calls, const struct function *region);

/* Whether a block leads on within its function, or by a jump. */
static inline int calls_is_straight(const struct trail_block *block)
{
	return block->kind == TRAIL_FALL || block->kind == TRAIL_JUMP ||
	       block->kind == TRAIL_BRANCH;
}

/* Whether the frame of that depth is a guess, since blocks were lost. */
static inline int calls_is_unsure(const struct calls *calls, uint32_t depth)
{
	return depth < calls->unsure;
}

#endif
