/* SPDX-License-Identifier: MIT */
/*
 * Which blocks of two traces are the same code, wherever it lay: by module and offset; in memory of
 * no module by the bytes alone. Modules are the same by build id, else by path, else by name.
 *
 * One thread at a time uses what is here.
 */
#ifndef READ_HISTORY_ALIKE_H
#define READ_HISTORY_ALIKE_H

#include "read/history/image.h"
#include "trace/trail/table.h"

#include <stdint.h>

/* What comparing blocks takes. Of two blocks with the same number all is the same. */
struct alike_code {
	uint32_t number; /* 0: not defined */
	uint32_t instructions;
};

/* The place of a block. */
struct alike_place {
	uint32_t module; /* which of alike_module()'s; 0: in none */
	uint64_t offset; /* in the module */
	uint64_t target; /* of code in no module: its jump's target, in place of its address */
};

/* The codes and places of a table's blocks, by id. */
struct alike_table {
	struct alike_table *next, *beside; /* of all; of the same number */
	const struct trail_table *table;
	struct alike_code *codes;
	struct alike_place *places;
};

/* A module, as each of the two traces has it; NULL: it has none. */
struct alike_module {
	const char *name; /* the last part of its path */
	const char *path[2], *build_id[2];
};

struct alike;

/* 0 or -ENOMEM; close with alike_close(), which allows NULL. Images and tables must live longer. */
int alike_open(struct alike **alike);
void alike_close(struct alike *alike);

/*
 * The codes of a table that trace `side`, 0 or 1, has in a process whose image this is. The same
 * table gives the same again. NULL: no memory.
 */
const struct alike_table *alike_table(struct alike *alike, int side,
				      const struct trail_table *table, struct image *image);

/* By number, from 1 on; NULL behind the last. */
const struct alike_module *alike_module(const struct alike *alike, uint32_t number);

/* A place in a block: so many bytes behind its begin. */
struct alike_point {
	const struct alike_table *table;
	uint32_t id;
	uint32_t from;
};

/* Whether so many bytes from there on are the same code. */
int alike_range(const struct alike_point *a, const struct alike_point *b, uint32_t bytes);

#endif
