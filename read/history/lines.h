/* SPDX-License-Identifier: MIT */
/*
 * How often each line of source ran, out of trails, by the debug information of the modules that
 * did.
 *
 * A line's code is in pieces, and control passes between them without running other lines: a loop's
 * head and its step, the code before and behind a call. Such pieces make one copy of the line. A
 * copy ran as often as the one of its instructions that ran most; the line, as often as all of its
 * copies together. So
 *
 *  - a call, a condition in several jumps, or a loop on one line, is not counted for each of its
 *    parts: the head of for (i = 0; i < n; i++) ran n + 1 times, as gcov has it too;
 *  - a function that was inlined, cloned, or linked into several modules has a copy in each place,
 *    and so has the body of a loop that was unrolled: what ran in any of them is the line's;
 *  - of copies that the compiler put one behind the other with no jump between them, only one is
 *    seen. Code that was vectorized ran as often as the machine ran it;
 *  - code that the compiler mixed into that of other lines (rows that begin no statement) counts
 *    only for a line that has no other.
 *
 * A line whose statement has no code left ran when control came by where it stood. An instruction
 * that faulted did not run. Code that was changed at run time counts for the line that the file has
 * there.
 *
 * Branches are the machine's conditional jumps, by address in their line: the source has more, or
 * fewer. Inlined functions are not separated; functions are those that have a symbol.
 *
 * One thread at a time uses it.
 */
#ifndef READ_HISTORY_LINES_H
#define READ_HISTORY_LINES_H

#include "read/history/block_counts.h"
#include "read/history/image.h"

#include <stddef.h>
#include <stdint.h>

struct lines;

/* A conditional jump. Where a trail ended on it, neither. */
struct lines_branch {
	uint64_t ran, taken, fell;
};

struct lines_line {
	uint32_t number;
	uint8_t is_wanted; /* it has code in a function that was asked for, or none was */
	uint64_t ran;
	uint64_t instructions;
	const struct lines_branch *branches;
	/* all that there are, only with lines_options.all_branches; else those that ran */
	uint32_t branch_count;
};

struct lines_function {
	const char *name; /* the linker's, without what marks a clone */
	uint32_t line;
	uint64_t ran;
};

struct lines_source {
	const char *
		/* the compiler's, made absolute if it has the folder; without "//", "." and ".." */
		path;
	const struct lines_line *lines; /* those with code, by number, also what never ran */
	size_t line_count;
	const struct lines_function *functions; /* by line */
	size_t function_count;
	int64_t built_s; /* when the newest module that has it was last written to; 0: not known */
	uint8_t has_run;
	uint8_t is_optimized; /* code of it is, in some module: lines that ran may have none left */
};

struct lines_module {
	const char *path;
	int error;	  /* its file can't be had: as image_module */
	size_t row_count; /* 0: it has no debug information */
};

struct lines_options {
	const char *module;   /* glob of its path, or of the last part of it; NULL: all */
	const char *function; /* code_symbols_match(): only lines with code in these; NULL: all */
	int all_branches;     /* also those that never ran */
};

/*
 * `options` may be NULL; its texts must live longer. 0 or -ENOMEM; close with lines_close(), which
 * allows NULL.
 */
int lines_open(struct lines **lines, const struct lines_options *options);
void lines_close(struct lines *lines);

/*
 * Take in what a process ran, as often as one likes; nothing of `image` and `ran` is kept. 0 or
 * -ENOMEM. Modules of the same path and build id are one, in whichever process.
 */
int lines_take(struct lines *lines, struct image *image, const struct ran *ran);

/* All is in: count. 0 or -ENOMEM. Then, until the lines are closed: */
int lines_settle(struct lines *lines);

/* Sources by path, with those that did not run; NULL behind the last. */
const struct lines_source *lines_source(const struct lines *lines, size_t index);

/* Modules that code ran in; NULL behind the last. */
const struct lines_module *lines_module(const struct lines *lines, size_t index);

/* All instructions that ran, those without a line too. */
uint64_t lines_instructions(const struct lines *lines);

#endif
