/* SPDX-License-Identifier: MIT */
#include "trace/trail/testing/walk.h"

#include "trace/testing/packets.h"

#include <stdlib.h>

#define BLOCK_BYTES 16u
#define WAYS 4u /* paths that begin at a block; the last is the beginning of the one before */
#define LAST_AT 14u

struct walk_program {
	struct trail_source_block blocks[SAMPLE_WALK_BLOCKS];
	uint8_t code[BLOCK_BYTES];
};

static uint32_t draw(uint64_t *seed, uint32_t below)
{
	return (uint32_t)(sample_random(seed) >> 33) % below;
}

static uint64_t start_of(uint64_t base, uint32_t block)
{
	return base + block * BLOCK_BYTES;
}

/* Half of it branches anywhere, or on; the rest jumps. */
static void program_make(struct walk_program *program, uint64_t base)
{
	uint64_t seed = 7;

	for (uint32_t i = 0; i < BLOCK_BYTES; i++)
		program->code[i] = (uint8_t)i;
	for (uint32_t i = 0; i < SAMPLE_WALK_BLOCKS; i++) {
		struct trail_entry entry = { .start = start_of(base, i),
					     .bytes = BLOCK_BYTES,
					     .last = LAST_AT,
					     .instructions = 3,
					     .kind = TRAIL_BRANCH };

		if (i + 1 == SAMPLE_WALK_BLOCKS || draw(&seed, 8) == 0)
			entry.kind = TRAIL_JUMP;
		entry.target = start_of(base, draw(&seed, SAMPLE_WALK_BLOCKS));
		program->blocks[i] = (struct trail_source_block){ entry, program->code };
	}
}

static uint32_t next_of(const struct walk_program *program, uint32_t block, uint64_t *seed)
{
	const struct trail_entry *entry = &program->blocks[block].entry;
	uint64_t base = program->blocks[0].entry.start;

	if (entry->kind == TRAIL_BRANCH && draw(seed, 2))
		return block + 1;
	return (uint32_t)((entry->target - base) / BLOCK_BYTES);
}

/* One of the ways from a block on, which its number gives. */
static void path_make(const struct walk_program *program, uint32_t turn, uint32_t block,
		      uint32_t way, struct trail_source_path *path,
		      struct trail_source_block *blocks, uint32_t *next)
{
	uint32_t like = way == WAYS - 1 ? way - 1 : way;
	uint64_t seed = (turn * SAMPLE_WALK_BLOCKS + block) * WAYS + like + 1;
	uint32_t count = 1 + draw(&seed, SAMPLE_WALK_PATH_MAX);

	if (way != like)
		count = 1 + count / 2;
	for (uint32_t i = 0; i < count; i++) {
		blocks[i] = program->blocks[block];
		block = next_of(program, block, &seed);
	}
	*path = (struct trail_source_path){
		.number = (turn * SAMPLE_WALK_BLOCKS +
			   (uint32_t)((blocks->entry.start - program->blocks[0].entry.start) /
				      BLOCK_BYTES)) *
				  WAYS +
			  way,
		.count = count,
		.blocks = blocks,
	};
	path->first = (path->number - (way - like)) * SAMPLE_WALK_PATH_MAX;
	*next = block;
}

static void put(struct sample_trail *sample, const struct trail_source_path *path, int has_paths)
{
	if (has_paths) {
		if (trail_thread_path(&sample->trail, &sample->thread, path, ++sample->now))
			abort();
		return;
	}
	for (uint32_t i = 0; i < path->count; i++)
		sample_trail_ran(sample, &path->blocks[i].entry, path->blocks[i].code);
}

/* At times there is an event, behind which it continues at the block. */
static void put_event(struct sample_trail *sample, const struct trail_source_block *before,
		      uint64_t next, uint64_t *seed)
{
	uint32_t kind = draw(seed, 40);

	if (kind == 0) {
		sample_trail_event(sample, TRAIL_DEPART, next, 0, 0, 0);
		sample_trail_event(sample, TRAIL_ARRIVE, next, 0, 0, 0);
	} else if (kind == 1) {
		sample_trail_event(sample, TRAIL_SIGNAL, before->entry.start + LAST_AT, 1, 10,
				   next);
	} else if (kind == 2) {
		sample_trail_event(sample, TRAIL_LOST, 0, 0, 0, 0);
	}
}

uint64_t sample_walk(struct sample_trail *sample, uint64_t seed, unsigned int paths, int has_paths,
		     const uint64_t bases[2])
{
	static struct walk_program programs[2];
	uint64_t count = 0;
	uint32_t block = 0;

	program_make(&programs[0], bases[0]);
	program_make(&programs[1], bases[1]);
	for (unsigned int i = 0; i < paths; i++) {
		uint32_t turn = i >= paths / 2;
		struct trail_source_block blocks[SAMPLE_WALK_PATH_MAX];
		struct trail_source_path path;

		if (i && i == paths / 2)
			sample_trail_event(sample, TRAIL_EXEC, 0, 0, 0, 0);
		path_make(&programs[turn], turn, block, draw(&seed, WAYS), &path, blocks, &block);
		put(sample, &path, has_paths);
		count += path.count;
		if (i + 1 != paths / 2)
			put_event(sample, &blocks[path.count - 1],
				  programs[turn].blocks[block].entry.start, &seed);
	}
	return count;
}
