/* SPDX-License-Identifier: MIT */
/*
 * For tests: two runs of a program that never was, written, read and compared. Its main part is a
 * loop that calls a library which loops itself:
 *
 *	program	0x100 head:	branch to leave		library	0x2000 scan:	branch to found
 *		0x108		call scan			0x2004		jump to scan
 *		0x10d		jump to head			0x2010 found:	return
 *		0x140 leave:	system call
 *		0x200 handler:	return				0x3000	system call (sigreturn)
 */
#ifndef READ_HISTORY_TESTING_DIVERGENCE_FIXTURE_H
#define READ_HISTORY_TESTING_DIVERGENCE_FIXTURE_H

#include "read/history/divergence.h"
#include "trace/trail/testing/trail.h"

enum module { PROGRAM, LIBRARY, PLUGIN, NOWHERE, MODULES };

struct code {
	enum module module;
	uint64_t offset;
	uint16_t bytes;
	uint8_t kind;
	enum module to;
	uint64_t target;
};

extern const struct code HEAD, CALLS, SCAN, MORE, FOUND, TAIL, LEAVE, AFTER, AGAIN, HANDLER,
	SIGRETURN;

#define RUN_PATH_BLOCKS 4u

/* A run being written, then read. The second has paths, of up to so many blocks. */
struct run {
	struct sample_trail sample;
	uint64_t bases[MODULES];
	struct trace_reader *reader;
	struct trails trails;
	struct image *image;
	uint8_t fill; /* of code in no module */
	/* it is written with paths: the blocks of the next one, and paths so far */
	int has_paths;
	struct trail_source_block blocks[RUN_PATH_BLOCKS];
	uint8_t code[RUN_PATH_BLOCKS][64];
	uint32_t block_count, paths;
};

/* What it has of the next path is written. */
void run_path(struct run *run);

extern struct run runs[2];
#define A (&runs[0])
#define B (&runs[1])

/* What compare() found, and what it is to go by. */
extern struct divergence result;
extern struct divergence_options options;

/* Of each test. */
void begin(void);
void end(void);

uint64_t at(const struct run *run, const struct code *code);
void ran(struct run *run, const struct code *code);

/* Some bytes of a block, which something came between. */
void ran_part(struct run *run, const struct code *code, uint16_t bytes);
void event(struct run *run, enum trail_event kind, uint64_t where, uint64_t first, uint64_t second);

#define TURN_BLOCKS 7 /* with one scan */

/* A turn of the loop, in which the library makes so many; and some with one each. */
void turn(struct run *run, int scans);
void turns(struct run *run, int count);
void leaves(struct run *run, uint64_t status);
void makes_call(struct run *run, uint64_t number, uint64_t got);

/* A signal before the code at `where`, and its handler. */
void has_signal(struct run *run, uint64_t where);

/* Both are written, read and compared, or the test fails. */
void compare(void);

/* The next block of one of them begins there. */
void expect_next(int which, uint64_t address);
void expect_same(uint64_t harmless);

#endif
