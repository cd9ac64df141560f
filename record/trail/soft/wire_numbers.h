/* SPDX-License-Identifier: MIT */
/*
 * The numbers of blocks and paths that go over a wire. An origin's numbers
 * (trace/trail/addressed.h) may be sparse: on the wire both have its own numbers, from 0 on in
 * order of appearance.
 */
#ifndef RECORD_TRAIL_SOFT_WIRE_NUMBERS_H
#define RECORD_TRAIL_SOFT_WIRE_NUMBERS_H

#include "trace/trail/addressed.h"

#include <stddef.h>
#include <stdint.h>

#define WIRE_PATH_BLOCKS_MAX 1024u

/* Where they are put in. Zeroed: none was yet. */
struct wire_told {
	uint32_t *list; /* by the origin's number: the wire's, and one; 0: it has none */
	size_t room;
	uint32_t count;
};

/* The wire's number: 1: it had one before; 0: it is new; -ENOMEM. */
int wire_told_number(struct wire_told *reported, uint32_t number, uint32_t *wires);
void wire_told_release(struct wire_told *reported);

struct wire_path {
	const struct trail_source_block *blocks;
	uint32_t count;
	uint64_t instructions;
};

/* The receiving end. Zeroed: no number is known. */
struct wire_numbers {
	struct trail_source_block *blocks; /* by number */
	size_t block_count, block_room;
	struct wire_path *paths; /* likewise */
	size_t path_count, path_room;
	struct wire_chunk *chunks;
};

/* 0; -ENOMEM; -EPROTO where it is not the number that is to come next. `code` may be NULL. */
int wire_numbers_add(struct wire_numbers *numbers, uint32_t number, const struct trail_entry *entry,
		     const uint8_t *code);

/*
 * A path of blocks of these numbers, `count` in `list`, which is aligned to nothing. Likewise;
 * -EPROTO for blocks that are not there.
 */
int wire_numbers_path(struct wire_numbers *numbers, uint32_t number, const uint8_t *list,
		      size_t count);
void wire_numbers_release(struct wire_numbers *numbers);

/* A path, or NULL: the number is unused. */
static inline const struct wire_path *wire_path_of(const struct wire_numbers *numbers,
						   uint32_t number)
{
	return number < numbers->path_count ? &numbers->paths[number] : NULL;
}

#endif
