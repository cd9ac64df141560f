/* SPDX-License-Identifier: MIT */
#include "read/history/lines.h"

#include "base/array.h"
#include "base/name_match.h"
#include "read/history/lines_own.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int lines_open(struct lines **out, const struct lines_options *options)
{
	struct lines *lines = *out = calloc(1, sizeof(*lines));

	if (!lines)
		return -ENOMEM;
	if (options)
		lines->options = *options;
	return 0;
}

static void module_release(struct own_module *module)
{
	for (size_t i = 0; i < module->function_count; i++)
		free(module->functions[i].name);
	free(module->functions);
	free(module->branches);
	free(module->rows);
	insns_release(&module->insns);
	free(module->path);
	free(module->build_id);
}

void lines_close(struct lines *lines)
{
	if (!lines)
		return;
	for (size_t i = 0; i < lines->module_count; i++)
		module_release(&lines->modules[i]);
	for (size_t i = 0; i < lines->source_count; i++)
		free(lines->sources[i].path);
	free(lines->modules);
	free(lines->sources);
	free(lines->lines);
	free(lines->source_slots.all);
	free(lines->line_slots.all);
	free(lines->seen);
	free(lines->seen_lines);
	free(lines->seen_branches);
	free(lines->seen_functions);
	free(lines);
}

/* ---- taking in ---- */

static int is_same(const char *one, const char *other)
{
	return !one || !other ? one == other : !strcmp(one, other);
}

static int module_of(struct lines *lines, struct image_module *from, size_t *index)
{
	struct own_module *module;

	for (*index = 0; *index < lines->module_count; ++*index)
		if (is_same(lines->modules[*index].path, from->path) &&
		    is_same(lines->modules[*index].build_id, from->build_id))
			return 0;
	if (array_grow(&lines->modules, &lines->module_room, lines->module_count + 1,
		       sizeof(*lines->modules)))
		return -ENOMEM;
	module = &lines->modules[lines->module_count];
	*module = (struct own_module){ .path = strdup(from->path) };
	if (from->build_id)
		module->build_id = strdup(from->build_id);
	if (!module->path || (from->build_id && !module->build_id)) {
		free(module->path);
		free(module->build_id);
		return -ENOMEM;
	}
	lines->module_count++;
	module->seen.path = module->path;
	module->seen.error = from->error;
	return from->file ? lines_load_module(lines, module, from) : 0;
}

/* Where the blocks at hand are: most follow others of their module. */
struct taking {
	struct lines *lines;
	struct image *image;
	struct image_module *from; /* NULL: not known yet, or none */
	int is_asked_for;
	size_t module;
};

static int is_asked_for(const struct lines *lines, const struct image_module *module)
{
	const char *glob = lines->options.module;

	return !glob || name_match_module(glob, module->path);
}

/* The module of a block: 0, -ENOENT if no module there could be read, -ENOMEM. */
static int module_at(struct taking *taking, uint64_t address)
{
	const struct image_place *place;

	if (!taking->from || address < taking->from->start || address >= taking->from->end) {
		place = image_place(taking->image, address);
		taking->from = place ? place->module : NULL;
		taking->is_asked_for = taking->from && is_asked_for(taking->lines, taking->from);
		if (!place || (taking->is_asked_for &&
			       module_of(taking->lines, taking->from, &taking->module)))
			return -ENOMEM;
	}
	return taking->is_asked_for && taking->from->file ? 0 : -ENOENT;
}

static int block_take(struct taking *taking, const struct ran_table *from, uint32_t id,
		      const struct ran_cut *cuts, size_t cut_count)
{
	const struct trail_block *block = &from->table->blocks[id];
	const uint8_t *code = trail_table_code(from->table, block);
	uint8_t read[TRAIL_BLOCK_BYTES_MAX];
	int err;

	taking->lines->instructions += from->counts[id].ran * block->instructions;
	for (size_t i = 0; i < cut_count; i++)
		taking->lines->instructions -= cuts[i].left;
	err = module_at(taking, block->start);
	if (err)
		return err == -ENOENT ? 0 : err;
	if (code && !image_place(taking->image, block->start)) /* for image_check() */
		return -ENOMEM;
	if (!code && code_file_read(taking->from->file, block->start - taking->from->base, read,
				    block->bytes))
		return 0;
	err = insns_add(&taking->lines->modules[taking->module].insns, block, code ? code : read,
			taking->from->base, &from->counts[id], cuts, cut_count);
	return err == -ENOMEM ? err : 0;
}

static int by_id(const void *one, const void *other)
{
	const struct ran_cut *a = one, *b = other;

	return a->id < b->id ? -1 : a->id > b->id;
}

static int table_take(struct taking *taking, const struct ran_table *from)
{
	struct ran_cut *cuts = NULL;
	size_t cut = 0;
	int err = 0;

	/* another table's blocks may be of other modules at the same place */
	taking->from = NULL;
	taking->image = image_in(taking->image, from->table);
	if (!taking->image)
		return -ENOMEM;

	if (from->cut_count) {
		cuts = malloc(from->cut_count * sizeof(*cuts));
		if (!cuts)
			return -ENOMEM;
		memcpy(cuts, from->cuts, from->cut_count * sizeof(*cuts));
		qsort(cuts, from->cut_count, sizeof(*cuts), by_id);
	}
	for (uint32_t id = 0; !err && id < from->table->count; id++) {
		size_t first = cut;

		while (cut < from->cut_count && cuts[cut].id == id)
			cut++;
		if (from->counts[id].ran)
			err = block_take(taking, from, id, cuts + first, cut - first);
	}
	free(cuts);
	return err;
}

int lines_take(struct lines *lines, struct image *image, const struct ran *ran)
{
	struct taking taking = { .lines = lines, .image = image };
	int err = 0;

	for (size_t i = 0; !err && i < ran->count; i++)
		err = table_take(&taking, &ran->tables[i]);
	return err;
}

/* ---- settling ---- */

static int by_path(const void *one, const void *other)
{
	const struct own_module *a = one, *b = other;
	int order = strcmp(a->path, b->path);

	return order ? order
		     : strcmp(a->build_id ? a->build_id : "", b->build_id ? b->build_id : "");
}

int lines_settle(struct lines *lines)
{
	int err = 0;

	if (lines->module_count)
		qsort(lines->modules, lines->module_count, sizeof(*lines->modules), by_path);
	for (size_t i = 0; !err && i < lines->module_count; i++) {
		insns_settle(&lines->modules[i].insns);
		err = lines_count_module(lines, &lines->modules[i]);
	}
	return err ? err : lines_show(lines);
}

const struct lines_source *lines_source(const struct lines *lines, size_t index)
{
	return index < lines->seen_count ? &lines->seen[index] : NULL;
}

const struct lines_module *lines_module(const struct lines *lines, size_t index)
{
	return index < lines->module_count ? &lines->modules[index].seen : NULL;
}

uint64_t lines_instructions(const struct lines *lines)
{
	return lines->instructions;
}
