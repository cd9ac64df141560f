/* SPDX-License-Identifier: MIT */
#include "target/code/sweep.h"

#include "base/array.h"
#include "base/sorted.h"
#include "target/code/file.h"
#include "target/code/gather.h"
#include "target/code/symbol.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool bit_get(const uint64_t *bits, uint64_t at)
{
	return bits[at / 64] >> (at % 64) & 1;
}

void sweep_address_add(struct gather *gather, struct address_list *list, uint64_t address)
{
	if (array_grow(&list->all, &list->room, list->count + 1, sizeof(*list->all))) {
		gather->err = -ENOMEM;
		return;
	}
	list->all[list->count++] = address;
}

void sweep_address_sort(struct address_list *list)
{
	size_t kept = 0;

	if (!list->count)
		return;
	sorted_make(list->all, list->count, sizeof(*list->all));
	for (size_t i = 1; i < list->count; i++)
		if (list->all[i] != list->all[kept])
			list->all[++kept] = list->all[i];
	list->count = kept + 1;
}

void sweep_gather_target(struct gather *gather, uint64_t address)
{
	const struct sweep_part *part = sweep_part_at(gather->sweep, address);

	if (part) {
		uint64_t at = address - part->range.start;

		part->targets[at / 64] |= 1ull << (at % 64);
	}
}

static int parts_make(struct sweep *sweep)
{
	const struct image *image = &sweep->image;

	sweep->parts = calloc(image->code_count + 1, sizeof(*sweep->parts));
	if (!sweep->parts)
		return -ENOMEM;
	for (size_t i = 0; i < image->code_count; i++) {
		struct sweep_part *part = &sweep->parts[sweep->part_count++];
		size_t words, left;

		part->range = image->code[i];
		words = (part->range.end - part->range.start) / 64 + 1;
		part->data = image_at(image, part->range.start, &left);
		part->starts = calloc(words, sizeof(uint64_t));
		part->targets = calloc(words, sizeof(uint64_t));
		if (!part->starts || !part->targets)
			return -ENOMEM;
	}
	return 0;
}

static void pad_add(uint64_t address, void *data)
{
	sweep_gather_target(data, address);
}

/* Function starts, by frames, symbols and sections. Each is a target: somebody will call it. */
static void gather_edges(struct gather *gather, const struct code_symbols *symbols)
{
	struct sweep *sweep = gather->sweep;
	struct address_list *edges = &gather->edges;

	for (size_t i = 0; i < sweep->frames.count; i++) {
		const struct frame *frame = &sweep->frames.all[i];

		sweep_address_add(gather, edges, frame->start);
		/* what follows is filler, or a function that has no frame */
		if (sweep_part_at(sweep, frame->end))
			sweep_address_add(gather, edges, frame->end);
		sweep_gather_target(gather, frame->start);
		/* a damaged table of landing pads: it isn't known where they are */
		if (frames_landing_pads(&sweep->image, frame, pad_add, gather))
			sweep_address_add(gather, &gather->unread, frame->start);
	}
	for (size_t i = 0; symbols && i < symbols->function_count; i++) {
		uint64_t start = symbols->functions[i].address;

		if (!sweep_part_at(sweep, start))
			continue;
		sweep_address_add(gather, edges, start);
		sweep_gather_target(gather, start);
	}
	for (size_t i = 0; i < sweep->part_count; i++)
		sweep_address_add(gather, edges, sweep->parts[i].range.start);
	sweep_address_sort(edges);
}

static int passes_run(struct gather *gather, struct code_file *file,
		      const struct code_symbols *symbols)
{
	if (ZYAN_FAILED(ZydisDecoderInit(&gather->fast, ZYDIS_MACHINE_MODE_LONG_64,
					 ZYDIS_STACK_WIDTH_64)) ||
	    ZYAN_FAILED(ZydisDecoderInit(&gather->full, ZYDIS_MACHINE_MODE_LONG_64,
					 ZYDIS_STACK_WIDTH_64)) ||
	    ZYAN_FAILED(ZydisDecoderEnableMode(&gather->fast, ZYDIS_DECODER_MODE_MINIMAL, true)))
		return -ENOTSUP;
	gather_edges(gather, symbols);
	unpatchable_gather(gather, file, symbols);
	imports_gather(gather);
	gather_code(gather);
	if (gather->err)
		return gather->err;
	gather_words(gather);
	imports_gather_pointers(gather);
	jump_table_gather(gather);
	return gather->err;
}

int sweep_make(struct sweep *sweep, struct code_file *file, const struct code_symbols *symbols)
{
	struct gather gather = { .sweep = sweep, .file = file };
	int err;

	*sweep = (struct sweep){ 0 };
	err = image_load(&sweep->image, file);
	if (!err)
		err = frames_read(&sweep->frames, &sweep->image);
	if (!err)
		err = parts_make(sweep);
	if (!err)
		err = passes_run(&gather, file, symbols);
	free(gather.edges.all);
	free(gather.jumps.all);
	free(gather.unread.all);
	free(gather.guesses.all);
	free(gather.leas);
	free(gather.tails);
	return err;
}

int sweep_make_outline(struct sweep *sweep, struct code_file *file)
{
	struct gather gather = { .sweep = sweep, .file = file };
	int err;

	*sweep = (struct sweep){ 0 };
	err = image_load(&sweep->image, file);
	if (!err)
		err = frames_read(&sweep->frames, &sweep->image);
	if (!err)
		imports_gather(&gather);
	return err ? err : gather.err;
}

void sweep_release(struct sweep *sweep)
{
	for (size_t i = 0; i < sweep->part_count; i++) {
		free(sweep->parts[i].starts);
		free(sweep->parts[i].targets);
	}
	free(sweep->parts);
	free(sweep->doubts);
	free(sweep->unpatchables);
	free(sweep->return_excluded);
	free(sweep->imports);
	frames_release(&sweep->frames);
	image_release(&sweep->image);
	*sweep = (struct sweep){ 0 };
}

const struct sweep_part *sweep_part_at(const struct sweep *sweep, uint64_t address)
{
	for (size_t i = 0; i < sweep->part_count; i++)
		if (address >= sweep->parts[i].range.start && address < sweep->parts[i].range.end)
			return &sweep->parts[i];
	return NULL;
}

bool sweep_is_start(const struct sweep *sweep, uint64_t address)
{
	const struct sweep_part *part = sweep_part_at(sweep, address);

	return part && bit_get(part->starts, address - part->range.start);
}

bool sweep_is_target(const struct sweep *sweep, uint64_t address)
{
	const struct sweep_part *part = sweep_part_at(sweep, address);

	return part && bit_get(part->targets, address - part->range.start);
}

uint64_t sweep_next_target(const struct sweep *sweep, uint64_t from, uint64_t end)
{
	while (from < end && !sweep_is_target(sweep, from))
		from++;
	return from;
}

uint64_t sweep_previous(const struct sweep *sweep, uint64_t address)
{
	const struct sweep_part *part = sweep_part_at(sweep, address);
	uint64_t at;

	if (!part)
		return 0;
	at = address - part->range.start;
	for (unsigned int back = 1; back <= ZYDIS_MAX_INSTRUCTION_LENGTH && back <= at; back++)
		if (bit_get(part->starts, at - back))
			return address - back;
	return 0;
}

bool sweep_is_doubtful(const struct sweep *sweep, uint64_t address)
{
	size_t at_most = sorted_at_most(sweep->doubts, sweep->doubt_count, sizeof(*sweep->doubts),
					offsetof(struct image_range, start), address);

	return at_most && address < sweep->doubts[at_most - 1].end;
}

static int unpatchable_in(const struct sweep_unpatchable *all, size_t count, uint64_t start,
			  uint64_t end)
{
	for (size_t i = 0; i < count && all[i].start < end; i++)
		if (all[i].end > start)
			return all[i].refusal;
	return 0;
}

int sweep_unpatchable(const struct sweep *sweep, uint64_t start, uint64_t end)
{
	return unpatchable_in(sweep->unpatchables, sweep->unpatchable_count, start, end);
}

int sweep_return_excluded(const struct sweep *sweep, uint64_t address)
{
	return unpatchable_in(sweep->return_excluded, sweep->return_excluded_count, address,
			      address + 1);
}

const struct sweep_import *sweep_import_at(const struct sweep *sweep, uint64_t address)
{
	size_t at = sorted_below(sweep->imports, sweep->import_count, sizeof(*sweep->imports),
				 offsetof(struct sweep_import, at), address);

	return at < sweep->import_count && sweep->imports[at].at == address ? &sweep->imports[at]
									    : NULL;
}

const struct sweep_import *sweep_stub_import(const struct sweep *sweep, uint64_t address)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	size_t left;
	const uint8_t *at = image_at(&sweep->image, address, &left);
	int32_t distance;

	if (left > sizeof(endbr64) && !memcmp(at, endbr64, sizeof(endbr64))) {
		at += sizeof(endbr64);
		address += sizeof(endbr64);
		left -= sizeof(endbr64);
	}
	if (left && (*at == 0xf2 || *at == 0x48)) { /* bnd, or no more than a prefix */
		at++;
		address++;
		left--;
	}
	if (left < 6 || at[0] != 0xff || at[1] != 0x25)
		return NULL;
	memcpy(&distance, at + 2, sizeof(distance));
	return sweep_import_at(sweep, address + 6 + (uint64_t)(int64_t)distance);
}
