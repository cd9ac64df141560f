/* SPDX-License-Identifier: MIT */
/* The source line that each instruction is of: a module's .debug_line, by address. */
#ifndef CODE_ROWS_H
#define CODE_ROWS_H

#include "code/file.h"

#include <stddef.h>
#include <stdint.h>

/* From this address on, up to the next row's. */
struct code_row {
	uint64_t address;   /* as linked */
	const char *source; /* the path, as debug information has it; NULL: no line from here on */
	uint32_t line;
	uint32_t is_statement; /* the compiler's own mark: a breakpoint for the line would stand here */
};

struct code_rows {
	struct code_row *all; /* by address, each once */
	size_t count, room;
};

/* Read all. 0, also where there is no debug information; -ENOMEM. Release also after an error; the file lives longer. */
int code_rows_read(struct code_rows *rows, struct code_file *file);
void code_rows_release(struct code_rows *rows);

/* The row of an address, or NULL where no line is known. */
const struct code_row *code_row_at(const struct code_rows *rows, uint64_t address);

#endif
