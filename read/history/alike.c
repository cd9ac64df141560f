/* SPDX-License-Identifier: MIT */
#include "read/history/alike.h"

#include "base/array.h"
#include "base/slots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REACH_MAX (1ull << 30) /* of a module whose end is unknown */

/* The first block that got a number. */
struct first {
	const struct alike_table *table;
	uint32_t id;
};

/* A side's tables by their number. */
struct alike_numbers {
	struct alike_table **of;
	size_t room;
};

struct alike {
	struct alike_table *tables;
	struct alike_numbers numbers[2];
	struct alike_module *modules; /* by number - 1 */
	size_t module_count, module_room;
	struct first *firsts; /* by number - 1 */
	size_t first_count, first_room;
	struct slots slots; /* of firsts, by what makes them the same */
};

int alike_open(struct alike **alike)
{
	*alike = calloc(1, sizeof(**alike));
	return *alike ? 0 : -ENOMEM;
}

static void table_free(struct alike_table *table)
{
	free(table->codes);
	free(table->places);
	free(table);
}

void alike_close(struct alike *alike)
{
	if (!alike)
		return;
	for (struct alike_table *table = alike->tables, *next; table; table = next) {
		next = table->next;
		table_free(table);
	}
	for (int i = 0; i < 2; i++)
		free(alike->numbers[i].of);
	free(alike->modules);
	free(alike->firsts);
	free(alike->slots.all);
	free(alike);
}

/* ---- modules ---- */

static int is_text(const char *a, const char *b)
{
	return a && b && !strcmp(a, b);
}

/* How surely the module is the other trace's `known`; 0: it is not. */
static int likeness(const struct alike_module *known, int other, const struct image_module *module)
{
	if (is_text(known->build_id[other], module->build_id))
		return 3;
	if (is_text(known->path[other], module->path))
		return 2;
	return is_text(known->name, module->name);
}

/* The number of a module; 0: no memory. */
static uint32_t module_number(struct alike *alike, int side, const struct image_module *module)
{
	struct alike_module *best = NULL;
	int most = 0;

	for (size_t i = 0; i < alike->module_count; i++) {
		struct alike_module *known = &alike->modules[i];
		int how = known->path[side] ? 0 : likeness(known, !side, module);

		if (is_text(known->path[side], module->path) &&
		    (known->build_id[side] == module->build_id ||
		     is_text(known->build_id[side], module->build_id)))
			return (uint32_t)i + 1;
		if (how > most) {
			most = how;
			best = known;
		}
	}
	if (!best) {
		if (array_grow(&alike->modules, &alike->module_room, alike->module_count + 1,
			       sizeof(*alike->modules)))
			return 0;
		best = &alike->modules[alike->module_count++];
		*best = (struct alike_module){ .name = module->name };
	}
	best->path[side] = module->path;
	best->build_id[side] = module->build_id;
	return (uint32_t)(best - alike->modules) + 1;
}

const struct alike_module *alike_module(const struct alike *alike, uint32_t number)
{
	return number && number <= alike->module_count ? &alike->modules[number - 1] : NULL;
}

/* ---- places ---- */

/* The last result: neighbours in a table are near to each other. */
struct finder {
	struct alike *alike;
	int side;
	struct image *image;
	const struct image_module *module;
	uint32_t number;
};

/* The module of an address, 0 for none; -ENOMEM. */
static int64_t find_module(struct finder *finder, uint64_t address)
{
	const struct image_module *module = image_module_at(finder->image, address);

	if (!module || (!module->end && address - module->base >= REACH_MAX))
		return 0;
	if (module != finder->module) {
		finder->number = module_number(finder->alike, finder->side, module);
		finder->module = module;
	}
	return finder->number ? (int64_t)finder->number : -ENOMEM;
}

static int place_find(struct finder *finder, const struct trail_block *block,
		      struct alike_place *place)
{
	int64_t number = find_module(finder, block->start);

	*place = (struct alike_place){ 0 };
	if (number > 0) {
		place->module = (uint32_t)number;
		place->offset = block->start - finder->module->base;
	} else if (!number && block->target) {
		number = find_module(finder, block->target);
		place->target = number > 0 ? (uint64_t)number << 48 ^
						     (block->target - finder->module->base)
					   : block->target - block->start;
	}
	return number < 0 ? (int)number : 0;
}

/* ---- codes ---- */

static const uint8_t *code_of(const struct alike_point *point)
{
	const struct trail_table *table = point->table->table;
	const uint8_t *code = trail_table_code(table, &table->blocks[point->id]);

	return code ? code + point->from : NULL;
}

/*
 * Code in no module that leads elsewhere has a distance in its last instruction, which depends on
 * its own address: its target is compared instead.
 */
static uint32_t bytes_to_compare(const struct alike_point *point, uint32_t bytes)
{
	const struct trail_block *block = &point->table->table->blocks[point->id];

	if (point->table->places[point->id].module || !block->target ||
	    point->from + bytes <= block->last)
		return bytes;
	return block->last > point->from ? block->last - point->from : 0;
}

int alike_range(const struct alike_point *a, const struct alike_point *b, uint32_t bytes)
{
	const struct alike_place *pa = &a->table->places[a->id], *pb = &b->table->places[b->id];
	const uint8_t *ca = code_of(a), *cb = code_of(b);
	uint32_t count = bytes_to_compare(a, bytes);

	if (pa->module != pb->module)
		return 0;
	if (pa->module && pa->offset + a->from != pb->offset + b->from)
		return 0;
	if (!ca || !cb)
		return pa->module || ca == cb;
	if (count != bytes && (count != bytes_to_compare(b, bytes) || pa->target != pb->target))
		return 0;
	return !memcmp(ca, cb, count);
}

static int is_same(const struct first *first, const struct alike_table *table, uint32_t id)
{
	const struct trail_block *a = &first->table->table->blocks[first->id];
	const struct trail_block *b = &table->table->blocks[id];
	struct alike_point pa = { first->table, first->id, 0 }, pb = { table, id, 0 };

	return a->bytes == b->bytes && a->last == b->last && a->kind == b->kind &&
	       a->instructions == b->instructions && alike_range(&pa, &pb, a->bytes);
}

/* Unknown code counts as any; so the bytes are left out if a module identifies the block. */
static uint32_t hash_of(const struct alike_table *table, uint32_t id)
{
	const struct trail_block *block = &table->table->blocks[id];
	const struct alike_place *place = &table->places[id];
	struct alike_point point = { table, id, 0 };
	const uint8_t *code = code_of(&point);
	uint32_t count = bytes_to_compare(&point, block->bytes);
	uint64_t hash = 0xcbf29ce484222325ull ^ place->module ^ place->offset << 16 ^
			(uint64_t)block->bytes << 56;

	for (uint32_t i = 0; code && !place->module && i < count; i++)
		hash = (hash ^ code[i]) * 0x100000001b3ull;
	hash = (hash ^ hash >> 29) * 0x9e3779b97f4a7c15ull;
	return (uint32_t)(hash ^ hash >> 32);
}

static int number_give(struct alike *alike, struct alike_table *table, uint32_t id)
{
	struct alike_code *code = &table->codes[id];
	uint32_t hash = hash_of(table, id), found;

	if (slots_fit(&alike->slots))
		return -ENOMEM;
	for (uint64_t at = hash; slots_next(&alike->slots, hash, &at, &found);)
		if (is_same(&alike->firsts[found], table, id)) {
			code->number = found + 1;
			return 0;
		}
	if (array_grow(&alike->firsts, &alike->first_room, alike->first_count + 1,
		       sizeof(*alike->firsts)))
		return -ENOMEM;
	slots_add(&alike->slots, hash, (uint32_t)alike->first_count);
	alike->firsts[alike->first_count++] = (struct first){ table, id };
	code->number = (uint32_t)alike->first_count;
	return 0;
}

static int table_fill(struct alike *alike, struct alike_table *table, int side, struct image *image)
{
	struct finder finder = { .alike = alike,
				 .side = side,
				 .image = image_in(image, table->table) };
	int err = finder.image ? 0 : -ENOMEM;

	for (uint32_t id = 0; id < table->table->count && !err; id++) {
		const struct trail_block *block = trail_table_block(table->table, id);

		if (!block)
			continue;
		table->codes[id].instructions = block->instructions;
		err = place_find(&finder, block, &table->places[id]);
		if (!err)
			err = number_give(alike, table, id);
	}
	return err;
}

const struct alike_table *alike_table(struct alike *alike, int side,
				      const struct trail_table *table, struct image *image)
{
	struct alike_numbers *numbers = &alike->numbers[side];
	struct alike_table *found;

	if (array_grow_zeroed(&numbers->of, &numbers->room, table->number + 1ul,
			      sizeof(struct alike_table *)))
		return NULL;
	for (found = numbers->of[table->number]; found; found = found->beside)
		if (found->table == table)
			return found;
	found = calloc(1, sizeof(*found));
	if (!found)
		return NULL;
	found->next = alike->tables; /* freed with the others, also where it stays half filled */
	alike->tables = found;
	found->table = table;
	found->codes = calloc((size_t)table->count + 1, sizeof(*found->codes));
	found->places = calloc((size_t)table->count + 1, sizeof(*found->places));
	if (!found->codes || !found->places || table_fill(alike, found, side, image)) {
		alike->tables = found->next;
		table_free(found);
		return NULL;
	}
	found->beside = numbers->of[table->number];
	numbers->of[table->number] = found;
	return found;
}
