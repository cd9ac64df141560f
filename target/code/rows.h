/* SPDX-License-Identifier: MIT */
/* The source line that each instruction is of: a module's .debug_line, by address. */
#ifndef TARGET_CODE_ROWS_H
#define TARGET_CODE_ROWS_H

#include "target/code/file.h"

#include <stddef.h>
#include <stdint.h>

/*
 * From this address on, up to the next row's. Of several at one address only the last has code. The
 * others mark where a line's statement would begin, whose code is gone or mixed with the next
 * one's.
 */
struct code_row {
	uint64_t address; /* as linked */
	const char *
		/*
		 * the path, behind the compiler's folder if that is known; NULL: no line from here
		 * on
		 */
		source;
	uint32_t line;
	uint32_t is_statement : 1; /* the compiler's own mark: breakpoints for the line go here */
	uint32_t is_end : 1;	   /* code of a function or a section ends here */
	/* by the compiler's options, or by what only optimized code has */
	uint32_t is_optimized : 1;
	uint32_t order : 29; /* of the line program */
};

#define CODE_ROWS_MAX (1u << 27) /* more are forged */

struct code_row_source;

struct code_rows {
	struct code_row *
		/* by address, then as the line program has them; where code ends comes first */
		all;
	size_t count, room;
	struct code_row_source *sources; /* texts that are the rows' own */
};

/*
 * Read all of the code that is there: what the linker dropped has none. 0, also where there is no
 * debug information; -ENOMEM, -EFBIG for more than CODE_ROWS_MAX. Release also after an error; the
 * file lives longer.
 */
int code_rows_read(struct code_rows *rows, struct code_file *file);
void code_rows_release(struct code_rows *rows);

/* The row of the code at an address, or NULL where no line is known. */
const struct code_row *code_row_at(const struct code_rows *rows, uint64_t address);

#endif
