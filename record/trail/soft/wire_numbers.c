/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/wire_numbers.h"

#include "base/array.h"
#include "trace/packet_walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_BYTES (64u << 10)

/* Chunks never move, so pointers into them stay valid. */
struct wire_chunk {
	struct wire_chunk *next;
	size_t used;
	_Alignas(16) uint8_t space[KEPT_BYTES];
};

int wire_told_number(struct wire_told *reported, uint32_t number, uint32_t *wires)
{
	size_t before = reported->room;
	int had;

	if (array_grow(&reported->list, &reported->room, number + (size_t)1,
		       sizeof(*reported->list)))
		return -ENOMEM;
	memset(reported->list + before, 0, (reported->room - before) * sizeof(*reported->list));
	had = reported->list[number] != 0;
	if (!had)
		reported->list[number] = ++reported->count;
	*wires = reported->list[number] - 1;
	return had;
}

void wire_told_release(struct wire_told *reported)
{
	free(reported->list);
	*reported = (struct wire_told){ 0 };
}

/* `bytes` is KEPT_BYTES at most. */
static void *keep(struct wire_numbers *numbers, size_t bytes)
{
	struct wire_chunk *chunk = numbers->chunks;
	void *kept;

	bytes = (bytes + 7) & ~(size_t)7;
	if (!chunk || chunk->used + bytes > KEPT_BYTES) {
		chunk = malloc(sizeof(*chunk));
		if (!chunk)
			return NULL;
		chunk->next = numbers->chunks;
		chunk->used = 0;
		numbers->chunks = chunk;
	}
	kept = chunk->space + chunk->used;
	chunk->used += bytes;
	return kept;
}

int wire_numbers_add(struct wire_numbers *numbers, uint32_t number, const struct trail_entry *entry,
		     const uint8_t *code)
{
	uint8_t *kept = NULL;

	if (number != numbers->block_count)
		return -EPROTO;
	if (array_grow(&numbers->blocks, &numbers->block_room, number + (size_t)1,
		       sizeof(*numbers->blocks)))
		return -ENOMEM;
	if (code) {
		kept = keep(numbers, entry->bytes);
		if (!kept)
			return -ENOMEM;
		memcpy(kept, code, entry->bytes);
	}
	numbers->blocks[numbers->block_count++] = (struct trail_source_block){ *entry, kept };
	return 0;
}

int wire_numbers_path(struct wire_numbers *numbers, uint32_t number, const uint8_t *list,
		      size_t count)
{
	struct trail_source_block *blocks;
	uint64_t instructions = 0;

	if (number != numbers->path_count || !count || count > WIRE_PATH_BLOCKS_MAX)
		return -EPROTO;
	if (array_grow(&numbers->paths, &numbers->path_room, number + (size_t)1,
		       sizeof(*numbers->paths)))
		return -ENOMEM;
	blocks = keep(numbers, count * sizeof(*blocks));
	if (!blocks)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		uint32_t block = load_u32(list + 4 * i);

		if (block >= numbers->block_count)
			return -EPROTO;
		blocks[i] = numbers->blocks[block];
		instructions += blocks[i].entry.instructions;
	}
	numbers->paths[numbers->path_count++] = (struct wire_path){ blocks, (uint32_t)count,
								    instructions };
	return 0;
}

void wire_numbers_release(struct wire_numbers *numbers)
{
	while (numbers->chunks) {
		struct wire_chunk *next = numbers->chunks->next;

		free(numbers->chunks);
		numbers->chunks = next;
	}
	free(numbers->blocks);
	free(numbers->paths);
	*numbers = (struct wire_numbers){ 0 };
}
