/* SPDX-License-Identifier: MIT */
/* Which code a line of source became, by .debug_line. */
#ifndef TARGET_CODE_LINE_H
#define TARGET_CODE_LINE_H

#include "target/code/rows.h"

#include <stddef.h>
#include <stdint.h>

struct code_line {
	uint64_t address;   /* as linked */
	const char *source; /* the path, as struct code_row has it */
};

struct code_lines {
	struct code_line *all; /* by address, each once */
	size_t count, room;
	struct code_rows rows; /* whose texts these are */
	int has_source;	       /* whether debug information names it, of code that is there */
	unsigned int after;    /* if there is nothing: the next line that has code; 0: none */
};

/*
 * Each place where the line's code begins: statements' beginnings, by the compiler's own mark, that
 * follow one of another line. Unrolled, inlined and otherwise copied code has several. `source` is
 * a path or its end: "shop/order.c". Returns 0, also where there is nothing; -ENOMEM; -EFBIG: no
 * program has such tables. Release also after an error.
 */
int code_lines_find(struct code_lines *lines, struct code_file *file, const char *source,
		    unsigned int line);
void code_lines_release(struct code_lines *lines);

#endif
