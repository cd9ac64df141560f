/* SPDX-License-Identifier: MIT */
/*
 * A thread's segments, as its engine says of them (abi/engine.h). It may write at the same time,
 * and anything.
 */
#ifndef RECORD_TRAIL_SOFT_SOFT_SEGMENT_H
#define RECORD_TRAIL_SOFT_SOFT_SEGMENT_H

#include "record/trail/soft/soft_reader.h"

/* At a moment. */
struct soft_segment {
	uint32_t index;
	uint64_t number, began, ended; /* ticks; ended 0: it is being filled */
	uint64_t began_blocks;	       /* that the thread had written before */
	uint32_t words;
};

/* No thread gets so far: such a number is forged. */
#define SEGMENT_NUMBERS_MAX (UINT64_C(1) << 48)

/* What it says of itself now. 0: it has nothing, or that. */
int segment_look(const struct soft_reader *reader, uint32_t slot, uint32_t index,
		 struct soft_segment *taken);

/* The one with the least number of `from` to `to`. 0: none is there. */
int segment_next(const struct soft_reader *reader, uint32_t slot, uint64_t from, uint64_t to,
		 struct soft_segment *taken);

/* The one of that number. 0: it is not there. */
int segment_find(const struct soft_reader *reader, uint32_t slot, uint64_t number,
		 struct soft_segment *taken);

/*
 * Into reader->words. 0: it was overwritten meanwhile. Where it was full, the mark at its head goes
 * first.
 */
int segment_copy(const struct soft_reader *reader, uint32_t slot, const struct soft_segment *taken);

/*
 * Copy what is there while the writer continues, into `to`, of a segment's size. How many words;
 * -EAGAIN: it changed meanwhile.
 */
int segment_copy_now(const struct soft_reader *reader, uint32_t slot,
		     const struct soft_segment *taken, uint32_t *to);

/* It is given back, cleared: so it will be known how far it is filled, should its writer die. */
void segment_release(const struct soft_reader *reader, uint32_t slot,
		     const struct soft_segment *taken);

/*
 * How many words were written: the words that are still 0 are the only sign of where the writer
 * died.
 */
size_t segment_written(const uint32_t *words, size_t room);

/* About so many blocks are in it from that word on. What the words mean is known. */
uint64_t segment_blocks(const struct soft_reader *reader, uint32_t slot,
			const struct soft_segment *taken, size_t from);
/* The same of words that were copied, up to `room`. */
uint64_t segment_blocks_of(const struct soft_reader *reader, const uint32_t *words, size_t from,
			   size_t room);

#endif
