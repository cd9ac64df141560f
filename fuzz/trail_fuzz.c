/* SPDX-License-Identifier: MIT */
/*
 * The readers of trails against any bytes.
 *
 * An input is three files of a trace: two uint32 with the lengths of the first two, the facts,
 * the stream of definitions, a thread's stream. With -DLIBFUZZER this is a libFuzzer target. Else
 * it runs by itself:
 *
 *	trail_fuzz [SECONDS [SEED]]	a good trail, changed at random (default 3 s, seed 1)
 *	trail_fuzz FILE...		these inputs
 */
#include "fuzz/folder.h"
#include "fuzz/run.h"
#include "read/history/instruction.h"
#include "read/history/samples.h"
#include "read/history/samples_trail.h"
#include "trace/trail/range.h"
#include "trace/trail/testing/trail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TID 101u
#define WALK_MAX 20000u /* items that are looked at */

struct lengths {
	uint32_t facts, table;
};

static uint64_t looked; /* at so many blocks */
static uint64_t met;	/* so many samples have callers */

/* What a reader relies on: the item is whole, and may follow the block before. */
static void check_item(const struct trail_item *item, const struct trail_block *before)
{
	const struct trail_block *block = item->block;

	if (!block) {
		if (item->between->event >= TRAIL_EVENTS)
			abort();
		return;
	}
	if (!block->instructions || block->bytes > TRAIL_BLOCK_BYTES_MAX ||
	    block->last >= block->bytes || block->kind >= TRAIL_KINDS ||
	    item->ran > block->instructions)
		abort();
	if (before && !trail_block_leads(before, block->start))
		abort();
}

static void look(struct image *image, struct instruction_format *format,
		 const struct trail_item *item)
{
	const uint8_t *code = trail_table_code(item->table, item->block);
	const struct image_place *place = image_place(image, item->block->start);
	char text[INSTRUCTION_TEXT_BYTES];
	struct image_line line;

	if (!place || (place->function && !*place->function))
		abort();
	image_line(image, item->block->start, &line);
	for (size_t at = 0; code && at < item->block->bytes;) {
		int bytes = instruction_text(format, image, item->block->start + at, code + at,
					     item->block->bytes - at, text);

		if (strlen(text) >= INSTRUCTION_TEXT_BYTES || bytes == 0)
			abort();
		if (bytes < 0)
			break;
		at += (size_t)bytes;
	}
}

/* Walk a stretch forward, and as many items back again. */
static void walk(struct trail_range *range, struct image *image, struct instruction_format *format)
{
	const struct trail_block *before = NULL;
	uint64_t next = range->first;
	struct trail_item item;
	uint32_t steps = 0;

	while (steps < WALK_MAX && trail_range_next(range, &item)) {
		steps++;
		check_item(&item, before);
		/*
		 * between a trail's begins nothing is promised, and an index counts on all the same
		 */
		before = NULL;
		if (!item.block)
			continue;
		if (item.index != next++)
			abort();
		look(image, format, &item);
		looked++;
	}
	if (steps < WALK_MAX && next != range->end)
		abort();
	while (steps && trail_previous(&range->cursor, &item))
		steps--;
	if (steps)
		abort();
}

static void bounds(struct trail_bound *bound, uint64_t *seed)
{
	bound->kind = (enum trail_bound_kind)(run_random(seed) % 3);
	bound->value = run_random(seed) % 2 ? run_random(seed) : run_random(seed) % 200;
	if (bound->kind == TRAIL_BOUND_NS && run_random(seed) % 2)
		bound->value = 1700000000000000000 + run_random(seed) % 2000;
}

static void read_all(struct trace_reader *reader, struct trails *trails)
{
	static const struct image_options options = { .root = "/nonexistent" };
	struct instruction_format *format;
	uint64_t seed = 1, count;
	struct trail_moment moment;

	if (instruction_format_open(&format, INSTRUCTION_ATT))
		return;
	for (size_t i = 0; i < trails->path_count; i++) {
		const struct trail_path *path = &trails->paths[i];
		struct image *image;

		if (image_open(&image, &reader->meta.processes[path->stream->process], &options))
			continue;
		for (int j = 0; j < 4; j++) {
			struct trail_bound from = { 0 }, to = { 0 };
			struct trail_range range;

			if (j)
				bounds(&from, &seed);
			if (j)
				bounds(&to, &seed);
			trail_range_init(&range, reader, path, &from, &to);
			walk(&range, image, format);
		}
		image_close(image);
	}
	(void)trail_event_find(reader, "trail:signal", 1, &moment, &count);
	(void)trail_event_find(reader, "db:query", 1, &moment, &count);
	instruction_format_close(format);
}

/* Samples of any instruction at any time: their callers are those of the trail. */
static void find_callers(struct trace_reader *reader)
{
	const struct image_options files = { .root = "/nonexistent" };
	const struct samples_options options = { 0 };
	uint64_t seed = 2, ns = reader_begin_ns(reader);
	struct samples_trail trail = { 0 };
	struct samples samples = { 0 };
	struct images images;
	uint32_t thread;
	int err = images_open(&images, reader, &files);

	if (!err)
		err = samples_open(&samples, &images, &options);
	if (!err)
		err = samples_thread_find(&samples, SAMPLE_TRAIL_PID, TID, ns, &thread);
	if (!err)
		err = samples_trail_open(&trail, &samples);
	for (int i = 0; i < 20 && !err; i++)
		err = samples_trail_add(&trail, thread,
					i % 5 ? 0x1000 + 0x1000 * (i % 2u) + run_random(&seed) % 80
					      : 0,
					i % 4 ? ns + run_random(&seed) % 1000 : run_random(&seed));
	if (!err)
		err = samples_trail_walk(&trail);
	for (size_t i = 0; i < trail.count && !err; i++) {
		if (trail.callers[i].stack >= samples.stacks.count)
			abort();
		met += trail.callers[i].stack != STACKS_ROOT;
	}
	samples_trail_release(&trail);
	samples_close(&samples);
	images_close(&images);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes)
{
	struct trace_reader *reader;
	struct lengths lengths;
	struct trails trails;

	if (bytes < sizeof(lengths))
		return 0;
	memcpy(&lengths, input, sizeof(lengths));
	input += sizeof(lengths);
	bytes -= sizeof(lengths);
	if (lengths.facts > bytes)
		lengths.facts = (uint32_t)bytes;
	if (lengths.table > bytes - lengths.facts)
		lengths.table = (uint32_t)bytes - lengths.facts;
	folder_store(FACTS_FILE, input, lengths.facts);
	input += lengths.facts;
	folder_store("100-0-0", input, lengths.table);
	input += lengths.table;
	folder_store("100-101-1", input, bytes - lengths.facts - lengths.table);
	if (trace_reader_open(&reader, folder_path()))
		return 0;
	if (!trails_read(&trails, reader))
		read_all(reader, &trails);
	trails_release(&trails, reader);
	find_callers(reader);
	trace_reader_close(reader);
	return 0;
}

#ifndef LIBFUZZER

/* Append a file of a trace, whose name begins so. */
static uint32_t append(const char *folder, const char *name, uint8_t *to, size_t room)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return (uint32_t)run_load(path, to, room);
}

/* A good trail as an input: a loop, a call, a signal, a system call, a module, paths. */
static size_t make_seed(uint8_t *to)
{
	static const struct trail_entry entries[] = {
		{ 0x1000, 0x1000, 5, 3, 2, TRAIL_BRANCH, 0 },
		{ 0x1005, 0x2000, 5, 0, 1, TRAIL_CALL, 0 },
		{ 0x2000, 0, 4, 3, 2, TRAIL_RETURN, 0 },
		{ 0x1040, 0, 7, 5, 2, TRAIL_SYSCALL, 0 },
	};
	static const char *const codes[] = { "\x83\xf9\x05\x74\xfb", "\xe8\xf6\x0f\x00\x00",
					     "\x8d\x49\x01\xc3", "\xb8\x01\x00\x00\x00\x0f\x05" };
	static const int order[] = { 0, 0, 1, 2, 0, 1, 2, 3 };
	struct trail_source_block turn[3];
	const struct trail_source_path paths[] = { { 0, 0, 3, turn }, { 1, 0, 2, turn } };
	struct sample_trail sample;
	struct lengths lengths;
	size_t bytes = sizeof(lengths);

	for (int i = 0; i < 3; i++)
		turn[i] = (struct trail_source_block){ entries[i], (const uint8_t *)codes[i] };
	sample_trail_begin(&sample);
	sample_trail_module(&sample, "/usr/lib/x.so", 0x1000, "\x12\x34", 2);
	sample_trail_thread(&sample, TID, "loops");
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		sample_trail_ran(&sample, &entries[order[i]], codes[order[i]]);
	sample_trail_event(&sample, TRAIL_SYSCALLED, 0x1047, 0, 1, 5);
	sample_trail_event(&sample, TRAIL_GAP, 0x1000, 0, 1, 0);
	sample_trail_ran(&sample, &entries[0], codes[0]);
	sample_trail_event(&sample, TRAIL_SIGNAL, 0x1003, 1, 11, 0x2000);
	sample_trail_ran(&sample, &entries[2], codes[2]);
	sample_trail_event(&sample, TRAIL_LOST, 0x1000, 0, 5, 0);
	for (int i = 0; i < 5; i++)
		if (trail_thread_path(&sample.trail, &sample.thread, &paths[i == 4], ++sample.now))
			abort();
	sample_trail_event(&sample, TRAIL_SIGNAL, 0x1005, 1, 11, 0x2000);
	sample_trail_ran(&sample, &entries[2], codes[2]);
	sample_trail_event(&sample, TRAIL_END, 0, 0, TRAIL_KILLED, 11);
	sample_trail_thread_end(&sample);
	sample_trail_close(&sample);
	lengths.facts = append(sample.folder, FACTS_FILE, to + bytes, RUN_INPUT_MAX / 4);
	bytes += lengths.facts;
	lengths.table = append(sample.folder, "100-0-0", to + bytes, RUN_INPUT_MAX / 4);
	bytes += lengths.table;
	bytes += append(sample.folder, "100-101-1", to + bytes, RUN_INPUT_MAX / 4);
	memcpy(to, &lengths, sizeof(lengths));
	sample_trail_remove(&sample);
	LLVMFuzzerTestOneInput(to, bytes);
	if (!looked || !met)
		abort(); /* it is none */
	return bytes;
}

/* Change a few bytes, numbers or stretches of one of the files. Returns the new length. */
static size_t change(uint8_t *input, size_t bytes, uint64_t *seed)
{
	uint64_t changes = 1 + run_random(seed) % 6;
	struct lengths lengths;

	memcpy(&lengths, input, sizeof(lengths));
	while (changes--) {
		size_t starts[] = { 0, sizeof(lengths), sizeof(lengths) + lengths.facts,
				    sizeof(lengths) + lengths.facts + lengths.table };
		size_t low = starts[run_random(seed) % 8 ? 2 + run_random(seed) % 2 : 1];
		size_t at, from, count, most;

		if (low >= bytes)
			low = 0;
		at = low + run_random(seed) % (bytes - low);
		from = run_random(seed) % bytes;
		count = 1 + run_random(seed) % 32;
		most = bytes - (at > from ? at : from);
		if (run_random(seed) % 5 == 0)
			memmove(input + at, input + from, count < most ? count : most);
		else
			bytes = run_damage(input, bytes, at, seed);
	}
	return bytes;
}

int main(int argc, char **argv)
{
	return run_main(argc, argv, make_seed, change);
}

#endif
