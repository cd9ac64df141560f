/* SPDX-License-Identifier: MIT */
/*
 * What the numbers of blocks and paths stand for that go over a relay. An origin's (trace/trail/source.h) may lie far apart: on
 * their way both have numbers of the relay's, from 0 on in the order of their coming.
 */
#ifndef SESSION_TRAIL_RELAY_NUMBERS_H
#define SESSION_TRAIL_RELAY_NUMBERS_H

#include "trace/trail/source.h"

#include <stddef.h>
#include <stdint.h>

#define RELAY_PATH_BLOCKS_MAX 1024u

/* Where they are put in. Zeroed: none was yet. */
struct relay_told {
	uint32_t *list; /* by the origin's number: the relay's, and one; 0: it has none */
	size_t room;
	uint32_t count;
};

/* The relay's number: 1: it had one before; 0: it is new; -ENOMEM. */
int relay_told_number(struct relay_told *told, uint32_t number, uint32_t *relays);
void relay_told_release(struct relay_told *told);

struct relay_path {
	const struct trail_source_block *blocks;
	uint32_t count;
	uint64_t instructions;
};

/* Where they come out. Zeroed: none stands for anything. */
struct relay_numbers {
	struct trail_source_block *blocks; /* by number */
	size_t block_count, block_room;
	struct relay_path *paths; /* likewise */
	size_t path_count, path_room;
	struct relay_chunk *chunks;
};

/* 0; -ENOMEM; -EPROTO where it is not the number that is to come next. `code` may be NULL. */
int relay_numbers_add(struct relay_numbers *numbers, uint32_t number,
		      const struct trail_entry *entry, const uint8_t *code);

/* A path of blocks of these numbers, `count` in `list`, which is aligned to nothing. Likewise; -EPROTO for blocks that are not there. */
int relay_numbers_path(struct relay_numbers *numbers, uint32_t number, const uint8_t *list,
		       size_t count);
void relay_numbers_release(struct relay_numbers *numbers);

/* A path, or NULL: the number stands for nothing. */
static inline const struct relay_path *relay_path_of(const struct relay_numbers *numbers,
						     uint32_t number)
{
	return number < numbers->path_count ? &numbers->paths[number] : NULL;
}

#endif
