/* SPDX-License-Identifier: MIT */
/*
 * What a sweep gathers while it is being made, and the passes that it is made of.
 */
#ifndef TARGET_CODE_GATHER_H
#define TARGET_CODE_GATHER_H

#include "target/code/sweep.h"

#include <Zydis/Zydis.h>
#include <elf.h>

struct address_list {
	uint64_t *all;
	size_t count, room;
};

/* An instruction that computes an address. */
struct gather_lea {
	uint64_t at, target;
};

struct gather {
	struct sweep *sweep;
	const struct code_file *file;
	ZydisDecoder fast; /* lengths and raw fields alone */
	ZydisDecoder full;
	struct address_list
		edges; /* where functions begin; after gather_edges() in order, each once */
	struct address_list jumps;   /* jmp *%reg, in order */
	struct address_list guesses; /* numbers in instructions that may be addresses */
	struct address_list unread;  /* functions with something in them that can't be read */
	struct gather_lea *leas;     /* of addresses in the module, in order of `at` */
	size_t lea_count, lea_room;
	struct gather_lea *tails; /* jumps out of their function, through a word too; likewise */
	size_t tail_count, tail_room;
	bool has_lookers; /* what these are, and the imports that code reads, is of interest */
	int err; /* the first that happened: of memory, or that the file's owner has had enough */
};

void sweep_address_add(struct gather *gather, struct address_list *list, uint64_t address);
void sweep_address_sort(struct address_list *list); /* and each once */

/* Something may enter at an address; nothing is done where that is no code. */
void sweep_gather_target(struct gather *gather, uint64_t address);

/*
 * Unpatchable: markers' sites, restartable sequences, some functions by their names
 * (unpatchable.c).
 */
void unpatchable_gather(struct gather *gather, struct code_file *file,
			const struct code_symbols *symbols);

/* Add one to the sweep's imports. */
void sweep_import_add(struct gather *gather, struct sweep_import import);

/* Whether it is libc or belongs to it. */
bool unpatchable_is_library(const struct image *image);

/* Of libc's functions that look at their return address, by their names without underscores. */
bool unpatchable_name_looks(const char *name);

/*
 * Tables of jumps; functions whose jumps aren't understood become doubts. After all others
 * (jump_table.c).
 */
void jump_table_gather(struct gather *gather);

#endif
