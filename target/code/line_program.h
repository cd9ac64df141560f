/* SPDX-License-Identifier: MIT */
/*
 * A unit's line program (DWARF 5, 6.2), as in .debug_line. libdw sorts its rows by address, so the
 * rows of code that the linker dropped, and left at address 0, can't be separated any more.
 */
#ifndef TARGET_CODE_LINE_PROGRAM_H
#define TARGET_CODE_LINE_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

struct line_program_row {
	uint64_t address;
	uint64_t start; /* of the sequence's first row: a sequence's code is contiguous */
	uint32_t file;	/* of the unit's, as the program counts them */
	uint32_t line;
	uint8_t is_statement, is_end;
};

/*
 * Run the program at `offset` of the section, and call row() for each row in its order. What row()
 * returns other than 0 ends it. 0, -EINVAL for a program that can't be read on, after the rows
 * before that.
 */
int line_program_run(const uint8_t *section, size_t bytes, uint64_t offset,
		     int (*row)(const struct line_program_row *row, void *data), void *data);

#endif
