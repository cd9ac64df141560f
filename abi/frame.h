/* SPDX-License-Identifier: MIT */
/*
 * Watches of local variables: a place that is one only while a frame lives.
 *
 * A session asks for one breakpoint at the function's first instruction (WATCH_FRAME_ENTRY) and for
 * as many frames as there are debug registers for, each with a watch for each piece of the variable
 * (WATCH_OF_FRAME). Those of no frame are parked where no program has memory. The parts that share
 * memory, in the table of watches (abi/watch.h):
 *
 *	inside, at the function's entry: the thread that runs it
 *	    FREE, OVER -> TAKEN     a frame of the table; first waits for threads in a hit of it
 *	                            the return address is replaced by a stub's
 *	                            (inside/detour/return.h)
 *	    TAKEN -> ASKED          `tid`, `cfa`; `asked`++; waits, at most FRAME_WAIT_MS
 *	outside, which waits on `asked`
 *	    moves the frame's watches to cfa + offset on every thread, opens their gates
 *	    ASKED -> LIVE           the thread continues, into the function
 *	inside
 *	    ASKED -> OVER           timeout: the frame is not watched, and counted as late
 *	    LIVE -> OVER            it returned; or a hit, or another entry, found that it is gone:
 *	                            longjmp, exceptions, the end of its thread
 *	outside
 *	    OVER -> FREE            its watches are parked again, unless a thread took it meanwhile
 *
 * The state word's upper bits count the frames, so that no step is taken for another frame than the
 * one it was meant for.
 *
 * A hit counts only if the frame is LIVE and there. In its own thread the stack is unwound
 * (base/cfi.h) from the hit to the frame: that is exact. In another thread the frame's return
 * address must still be the stub's. And where the function is then, must be where the variable is:
 * what the compiler has other blocks use the place for is not the variable's.
 */
#ifndef ABI_FRAME_H
#define ABI_FRAME_H

#include <stdint.h>

#define FRAMES_MAX 4 /* at once, of a session in a process */
#define FRAME_GROUPS_MAX 4
#define FRAME_SPANS_MAX 16
#define FRAME_WAIT_MS 1000

enum frame_step { FRAME_FREE, FRAME_TAKEN, FRAME_ASKED, FRAME_LIVE, FRAME_OVER };

#define FRAME_STEP(state) ((state)&0xffu)
#define FRAME_TO(state, step) (((state) & ~UINT32_C(0xff)) | (uint32_t)(step))
#define FRAME_NEXT(state, step) ((((state) + 0x100u) & ~UINT32_C(0xff)) | (uint32_t)(step))

struct frame_row {
	uint32_t state; /* a futex */
	/* written inside */
	int32_t tid;
	uint64_t cfa;
	uint64_t reserved[2];
};

/* Of one variable. */
struct frame_group {
	/* written outside, before the entry is asked for */
	uint32_t code_count, valid_count;
	uint64_t entry;
	uint64_t code[FRAME_SPANS_MAX][2];  /* where the function's instructions are: from, to */
	uint64_t valid[FRAME_SPANS_MAX][2]; /* of them, those where the variable is there */
	/* written inside, added to atomically: entries, and of them */
	uint64_t entered;
	uint64_t watched;
	uint64_t busy;	  /* no frame of the table, that is: no register, was free */
	uint64_t late;	  /* the outside did not arm it in time */
	uint64_t unended; /* its end could not be seen: no stub, or a stack that isn't aligned */
	/* hits without an event, all in the watches' `dropped`, too */
	uint64_t over;	  /* the frame was gone */
	uint64_t outside; /* the place was not the variable's just then */
	uint64_t unsure;  /* unknown: the stack could not be walked */
};

struct frame_table {
	uint32_t asked; /* a futex: how often the outside has had something to do */
	/* inside: a wait timed out, so no thread waits; the outside clears it */
	uint32_t is_late;
	uint32_t reserved[2];
	struct frame_row rows[FRAMES_MAX];
	struct frame_group groups[FRAME_GROUPS_MAX];
};

_Static_assert(sizeof(struct frame_row) == 32, "fixed");
_Static_assert(sizeof(struct frame_group) == 16 + 512 + 64, "fixed");

#endif
