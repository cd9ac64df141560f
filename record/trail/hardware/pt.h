/* SPDX-License-Identifier: MIT */
/*
 * Intel Processor Trace, decoded by libipt and woven into a trail: its blocks of user code cut into
 * ours, its events into those between blocks.
 *
 *	away and back at a system call's end	nothing
 *	away at any other place, or back there	TRAIL_GAP, TRAIL_GAP_KERNEL
 *	a transaction that was given up		TRAIL_GAP, TRAIL_GAP_NATIVE
 *	code of 32 bits				TRAIL_GAP, TRAIL_GAP_NATIVE
 *	into the kernel where it is recorded	as the code leads there, or TRAIL_SIGNAL of number 0
 *	code of a guest that it runs		TRAIL_LOST
 *	packets lost, or not to be understood	TRAIL_LOST
 *
 * A signal is away at one place and back at another. Times are of TSC packets: an event's is the
 * last before it, a block's the next after it, so that it is no later.
 */
#ifndef RECORD_TRAIL_HARDWARE_PT_H
#define RECORD_TRAIL_HARDWARE_PT_H

#include "record/trail/hardware/weave.h"

#include <stddef.h>
#include <stdint.h>

/* How TSC becomes ticks; zeroed: it can't, and all times are those of the stream's end. */
struct pt_clock {
	uint64_t tsc, ticks; /* at one moment */
	uint32_t mult;	     /* ticks = tsc * mult >> shift, as perf's mapped page has them */
	uint16_t shift;
};

uint64_t pt_clock_ticks(const struct pt_clock *clock, uint64_t tsc);

/* The processor lost the thread at this place of the stream, and got it again. */
struct pt_switch {
	uint64_t offset, depart_ticks, arrive_ticks;
};

/* How a stream ended, for the one that follows. Zeroed: nothing is known. */
struct pt_place {
	int is_away;	  /* the thread was in the kernel, or the event was off */
	uint64_t left_at; /* interrupted before that instruction; 0: it left by itself */
};

/* A stream that was stored without a break, of one thread. The caller owns all of it. */
struct pt_stream {
	const uint8_t *bytes;
	size_t count;
	uint16_t family; /* of the processor; 0: not known, its errata are not regarded */
	uint8_t model, stepping;
	struct pt_clock clock;
	uint64_t end_ticks; /* nothing in it is later */
	const struct pt_switch *switches;
	size_t switch_count;
	/* of the stream before, then of this; NULL: streams don't continue each other */
	struct pt_place *place;
};

/* Decoding errors. */
struct pt_outcome {
	uint64_t errors;
	char first[128]; /* the first, in libipt's words, and where */
};

/*
 * Decode a stream into the weave, which may have had others before. Decoding errors are in
 * *outcome, and TRAIL_LOST in the trail; so is the part before the first place where decoding can
 * begin.
 * 0, the sink's error, or -ENOMEM.
 */
int pt_decode(struct weave *weave, const struct pt_stream *stream, struct pt_outcome *outcome);

#endif
