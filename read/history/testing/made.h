/* SPDX-License-Identifier: MIT */
/*
 * Paths made up block by block, through the names of calls_fixture.S, for tests. A thread of a
 * process at a time.
 */
#ifndef READ_HISTORY_TESTING_MADE_H
#define READ_HISTORY_TESTING_MADE_H

#include "read/history/functions.h"
#include "trace/trail/path.h"

/* calls_fixture's places. */
enum {
	MAIN = 0x401000,
	F = 0x401040,
	G = 0x401080,
	LONGJMP = 0x4010c0,
	SETJMP = 0x401100,
	F_COLD = 0x401140,
	THUNK = 0x401180,
	HANDLER = 0x4011c0,
	SWAP = 0x401200,
	NAMELESS = 0x401240,
	ENTRY = 0x401260,     /* of a marker */
	ELSEWHERE = 0x500000, /* in no module */
};

extern struct made {
	struct trace_reader *reader;
	struct trails trails;
	struct image *image;
	struct functions functions;
} made;

void made_begin(void);
void made_end(void);

/* A block of two instructions and 4 bytes ran; the last one leads to `target`. */
void made_ran(uint64_t start, enum trail_kind kind, uint64_t target);
void made_event(enum trail_event kind, uint64_t at, uint32_t left, uint64_t first, uint64_t second);

/* Read the written path; valid until made_end(). */
const struct trail_path *made_read(void);

#endif
