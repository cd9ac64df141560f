/* SPDX-License-Identifier: MIT */
/* What the files of read/history/lines.h share. */
#ifndef READ_HISTORY_LINES_OWN_H
#define READ_HISTORY_LINES_OWN_H

#include "base/slots.h"
#include "read/history/insns.h"
#include "read/history/lines.h"

#define LINE_NONE UINT32_MAX

/* As struct code_row, with the line's index in place of its names. */
struct own_row {
	uint64_t address;
	uint32_t line; /* LINE_NONE: none */
	uint32_t is_statement;
};

struct own_branch {
	uint64_t address;
	uint32_t line;
};

/* The line is where the source declares it, which need not have code. */
struct own_function {
	char *name;
	uint64_t address;
	uint32_t source, line;
};

struct own_module {
	struct lines_module seen;
	char *path, *build_id; /* the latter may be NULL */
	struct insns insns;
	struct own_row *rows; /* by address; of several at one, the last has the code */
	size_t row_count, row_room;
	struct own_branch *branches; /* by address: all that the file has */
	size_t branch_count, branch_room;
	struct own_function *functions;
	size_t function_count, function_room;
	int64_t built_s;
};

struct own_line {
	uint32_t source, number;
	uint8_t is_wanted, has_statement;
	uint64_t ran, mixed; /* by statements; by code that is mixed into other lines' */
	uint64_t instructions;
};

struct own_source {
	char *path;
	int64_t built_s;
	uint8_t is_optimized;
};

struct lines {
	struct lines_options options;
	struct own_module *modules;
	size_t module_count, module_room;
	struct own_source *sources;
	size_t source_count, source_room;
	struct own_line *lines;
	size_t line_count, line_room;
	struct slots source_slots, line_slots;
	uint64_t instructions;
	/* once settled */
	struct lines_source *seen;
	size_t seen_count;
	struct lines_line *seen_lines;
	struct lines_branch *seen_branches;
	struct lines_function *seen_functions;
};

/* The index of a line, made where it is new: lines_names.c. 0 or -ENOMEM. */
int line_intern(struct lines *lines, uint32_t source, uint32_t number, uint32_t *index);
int lines_source_intern(struct lines *lines, const char *path, uint32_t *index);

/* Read a module file's lines, branches and functions: lines_load.c. 0 or -ENOMEM. */
int lines_load_module(struct lines *lines, struct own_module *module, struct image_module *from);

/* Count the lines of a module whose instructions are settled: lines_count.c. 0 or -ENOMEM. */
int lines_count_module(struct lines *lines, struct own_module *module);

/* Make what others see: lines_show.c. 0 or -ENOMEM. */
int lines_show(struct lines *lines);

/* The row of the code at an address, or NULL. */
const struct own_row *lines_own_row_at(const struct own_module *module, uint64_t address);

#endif
