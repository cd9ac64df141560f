/* SPDX-License-Identifier: MIT */
#include "history/image.h"

#include "code/rows.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define SLOTS_MIN 1024u

/* What is kept of a module beside what others see. */
struct module {
	struct image_module seen;
	struct code_rows rows;
	int is_opened, has_rows;
};

/* A function's name, shared by all places in it. */
struct name {
	struct name *next;
	char text[];
};

struct slot {
	uint64_t address;
	struct image_place *place; /* NULL: free */
};

struct image {
	char *root;
	struct module *modules; /* by start; of two at one place only the later counts */
	size_t module_count;
	struct slot *slots; /* open addressing */
	size_t slot_count, slots_used;
	struct name *names;
};

/* ---- modules ---- */

static int by_start(const void *one, const void *other)
{
	const struct module *a = one, *b = other;

	return a->seen.start < b->seen.start ? -1 : a->seen.start > b->seen.start;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static void modules_take(struct image *image, const struct tsdl_process *process)
{
	for (size_t i = 0; i < process->module_count; i++) {
		const struct tsdl_module *from = &process->modules[i];
		struct module *module = NULL;

		for (size_t j = 0; j < image->module_count && !module; j++)
			if (image->modules[j].seen.base == from->base &&
			    !strcmp(image->modules[j].seen.path, from->path))
				module = &image->modules[j];
		if (from->gone)
			continue; /* what ran in it is still asked for */
		if (!module)
			module = &image->modules[image->module_count++];
		*module = (struct module){ .seen = { .path = from->path,
						     .name = last_part(from->path),
						     .build_id = from->build_id,
						     .base = from->base,
						     .start = from->base } };
	}
}

static int is_the_one(const struct image_module *module, const struct code_file *file)
{
	char id[2 * CODE_BUILD_ID_MAX + 1] = "";

	if (!module->build_id)
		return 1; /* nothing tells */
	for (size_t i = 0; i < file->build_id_bytes; i++)
		snprintf(id + 2 * i, 3, "%02x", file->build_id[i]);
	return !strncmp(id, module->build_id, strlen(module->build_id));
}

static void module_open(struct image *image, struct module *module)
{
	struct image_module *seen = &module->seen;
	char path[PATH_MAX];

	module->is_opened = 1;
	if (seen->path[0] != '/' ||
	    snprintf(path, sizeof(path), "%s%s", image->root, seen->path) >= (int)sizeof(path)) {
		seen->error = -ENOENT;
		return;
	}
	seen->error = code_file_open(&seen->file, path);
	if (seen->error)
		return;
	if (!is_the_one(seen, seen->file)) {
		code_file_close(seen->file);
		seen->file = NULL;
		seen->error = -WM_E_FILE_REPLACED;
		return;
	}
	for (size_t i = 0; i < seen->file->segment_count; i++) {
		const struct code_segment *segment = &seen->file->segments[i];
		uint64_t end = seen->base + segment->address + segment->bytes;

		if (segment->type == PT_LOAD && end > seen->end)
			seen->end = end;
	}
	seen->error = code_symbols_read(&seen->symbols, seen->file);
}

/* The module that begins last before an address, and reaches so far as is known. */
static struct module *module_at(struct image *image, uint64_t address)
{
	size_t low = 0, high = image->module_count;
	struct module *module;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (image->modules[middle].seen.start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return NULL;
	module = &image->modules[low - 1];
	if (!module->is_opened)
		module_open(image, module);
	if (module->seen.end && address >= module->seen.end)
		return NULL;
	module->seen.is_asked = 1;
	return module;
}

int image_open(struct image **out, const struct tsdl_process *process,
	       const struct image_options *options)
{
	struct image *image = *out = calloc(1, sizeof(*image));

	if (!image)
		return -ENOMEM;
	image->root = strdup(options && options->root ? options->root : "");
	image->modules = calloc(process->module_count + 1, sizeof(*image->modules));
	image->slot_count = SLOTS_MIN;
	image->slots = calloc(image->slot_count, sizeof(*image->slots));
	if (!image->root || !image->modules || !image->slots) {
		image_close(image);
		*out = NULL;
		return -ENOMEM;
	}
	modules_take(image, process);
	qsort(image->modules, image->module_count, sizeof(*image->modules), by_start);
	return 0;
}

void image_close(struct image *image)
{
	if (!image)
		return;
	for (size_t i = 0; image->modules && i < image->module_count; i++) {
		code_rows_release(&image->modules[i].rows);
		code_symbols_release(&image->modules[i].seen.symbols);
		code_file_close(image->modules[i].seen.file);
	}
	for (size_t i = 0; image->slots && i < image->slot_count; i++)
		free(image->slots[i].place);
	for (struct name *name = image->names, *next; name; name = next) {
		next = name->next;
		free(name);
	}
	free(image->modules);
	free(image->slots);
	free(image->root);
	free(image);
}

/* ---- places ---- */

static struct slot *slot_of(struct slot *slots, size_t count, uint64_t address)
{
	size_t at = (size_t)(address * 0x9e3779b97f4a7c15ull >> 20) & (count - 1);

	while (slots[at].place && slots[at].address != address)
		at = (at + 1) & (count - 1);
	return &slots[at];
}

static int slots_grow(struct image *image)
{
	size_t count = image->slot_count * 2;
	struct slot *slots;

	if (image->slots_used * 2 < image->slot_count)
		return 0;
	slots = calloc(count, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < image->slot_count; i++)
		if (image->slots[i].place)
			*slot_of(slots, count, image->slots[i].address) = image->slots[i];
	free(image->slots);
	image->slots = slots;
	image->slot_count = count;
	return 0;
}

/* What a function is called; its first place has it made. */
static const char *name_of(struct image *image, uint64_t start, const struct code_symbol *symbol)
{
	struct slot *first = slot_of(image->slots, image->slot_count, start);
	char text[CODE_NAME_MAX + 1];
	struct name *name;
	size_t bytes;

	if (first->place && first->place->function)
		return first->place->function;
	code_symbol_text(symbol, 0, text, sizeof(text));
	bytes = strlen(text) + 1;
	name = malloc(sizeof(*name) + bytes);
	if (!name)
		return NULL;
	memcpy(name->text, text, bytes);
	name->next = image->names;
	image->names = name;
	return name->text;
}

static struct image_place *place_find(struct image *image, uint64_t address)
{
	struct module *module = module_at(image, address);
	struct image_place *place = calloc(1, sizeof(*place));
	const struct code_function *function;

	if (!place || !module)
		return place;
	place->module = &module->seen;
	function = code_function_at(&module->seen.symbols, address - module->seen.base);
	if (!function)
		return place;
	place->start = module->seen.base + function->address;
	place->bytes = function->bytes;
	place->function = name_of(image, place->start, &module->seen.symbols.all[function->first]);
	return place;
}

const struct image_place *image_place(struct image *image, uint64_t address)
{
	struct slot *slot = slot_of(image->slots, image->slot_count, address);
	struct image_place *place = slot->place;

	if (place)
		return place;
	if (slots_grow(image))
		return NULL;
	place = place_find(image, address);
	if (!place)
		return NULL;
	slot = slot_of(image->slots, image->slot_count, address);
	*slot = (struct slot){ address, place };
	image->slots_used++;
	return place;
}

void image_line(struct image *image, uint64_t address, struct image_line *line)
{
	struct module *module = module_at(image, address);
	const struct code_row *row = NULL;

	if (module && module->seen.file && !module->has_rows) {
		module->has_rows = 1;
		if (code_rows_read(&module->rows, module->seen.file))
			code_rows_release(&module->rows);
	}
	if (module)
		row = code_row_at(&module->rows, address - module->seen.base);
	*line = row ? (struct image_line){ row->source, row->line } : (struct image_line){ 0 };
}

size_t image_code(struct image *image, uint64_t address, void *buffer, size_t bytes)
{
	const struct module *module = module_at(image, address);
	const struct code_segment *segment;
	uint64_t linked, left;

	if (!module || !module->seen.file)
		return 0;
	linked = address - module->seen.base;
	segment = code_file_segment(module->seen.file, linked);
	if (!segment || !code_file_is_text(module->seen.file, linked, 1))
		return 0;
	left = segment->address + segment->file_bytes - linked;
	bytes = bytes < left ? bytes : (size_t)left;
	return code_file_read(module->seen.file, linked, buffer, bytes) ? 0 : bytes;
}

struct image_module *image_module(struct image *image, size_t index)
{
	return index < image->module_count ? &image->modules[index].seen : NULL;
}
