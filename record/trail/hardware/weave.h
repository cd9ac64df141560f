/* SPDX-License-Identifier: MIT */
/*
 * A thread's trail woven from the little that hardware reports: instructions as they ran (pt.h), or
 * just the branches that were taken (weave_bts()). Between branches the code itself shows what ran.
 *
 * The output keeps the successor rule (abi/trail.h) for any input: where the hardware contradicts
 * the code, it has a TRAIL_LOST, and nothing uncertain. Anything between two instructions ends the
 * block, so no event has any `left`.
 *
 * If the codes have the kernel's code, its branches are woven too: an interrupt or a fault is a
 * TRAIL_SIGNAL of number 0. Else a path through the kernel is a TRAIL_GAP, or nothing if a system
 * call just returns.
 *
 * One thread at a time uses a weave. Functions return 0 or the sink's error.
 */
#ifndef RECORD_TRAIL_HARDWARE_WEAVE_H
#define RECORD_TRAIL_HARDWARE_WEAVE_H

#include "record/trail/hardware/codes.h"
#include "record/trail/sink.h"
#include "target/code/block.h"

/* The most straight code between two branches. */
#define WEAVE_STRAIGHT_MAX (1u << 17)

/* Intel SDM, volume 3, 18.4.9 "BTS and DS save area", "64-bit branch trace record format". */
#define BTS_RECORD_BYTES 24u

struct weave_seen; /* an instruction, decoded once */

struct weave {
	struct trail_sink *sink;
	struct sink_thread *thread;
	struct codes *codes;
	uint64_t ticks; /* of what is given next; the caller's to set, never less than before */

	struct block_cut cut; /* a block in the making */
	struct trail_entry
		before; /* the last that was given, until an event; no instructions: none */
	uint64_t next;	/* after an event: where it continues; 0: anywhere */

	int is_at;   /* whether it is known where the thread continues: */
	uint64_t at; /* there */
	int is_away; /* it is in the kernel, whose code we do not have */

	struct weave_seen *seen;
	uint64_t generation;
	uint64_t blocks, losses; /* given so far */
};

/*
 * sink, thread and codes are the caller's and live longer. 0 or -ENOMEM; release also after an
 * error.
 */
int weave_init(struct weave *weave, struct trail_sink *sink, struct sink_thread *thread,
	       struct codes *codes);
void weave_release(struct weave *weave);

/* ---- instructions ---- */

/* The instruction at an address, or NULL: unreadable or invalid. Valid until the next call. */
const struct block_insn *weave_look(struct weave *weave, uint64_t address);

/* It ran. -EILSEQ: it can't be read, nothing is done. */
int weave_insn(struct weave *weave, uint64_t address);

/* Give the block that is in the making. */
int weave_flush(struct weave *weave);

/*
 * An event between blocks. `at`, if not 0, is where the thread continues; if it can't be there by
 * the blocks before, and the event requires that, the event says 0 instead.
 */
int weave_event(struct weave *weave, enum trail_event kind, uint64_t at, uint64_t first,
		uint64_t second);

/* ---- branches ---- */

/* It is known to be before the instruction at `address`: at its start, or after an event. */
void weave_stand(struct weave *weave, uint64_t address);

/*
 * It was seen standing before the instruction at `address`, with no branch since the last. 1: what
 * ran is given; 0: it can't have got there so, and nothing is done.
 */
int weave_reach(struct weave *weave, uint64_t address);

/* It is unknown how much is missing here, and where the thread continues. */
int weave_lost(struct weave *weave);

/*
 * Records of Intel's Branch Trace Store, in an AUX area of intel_bts, oldest first. A record cut at
 * the end is lost. 0 or the sink's error.
 */
int weave_bts(struct weave *weave, const uint8_t *bytes, size_t count);

#endif
