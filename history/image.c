/* SPDX-License-Identifier: MIT */
#include "history/image.h"

#include "code/rows.h"
#include "abi/trail.h"
#include "history/image_file.h"
#include "history/kernel_symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_MIN 1024u
#define LOOK_BACK_MAX 64u	   /* modules that may lie around another's start */
#define UNKNOWN_BYTES (1ull << 30) /* that a module may have whose file can't be had */

#define NOWHERE_BYTES 4096 /* of memory that nothing is ever mapped at */

/* What is kept of a module beside what others see. */
struct module {
	struct image_module seen;
	uint64_t low; /* what it covers begins there; once it is opened */
	struct code_rows rows;
	char *kernel_names; /* of symbols that no file has */
	size_t order;	    /* in which they came */
	int is_gone, is_opened, has_rows;
};

/* A function's name, shared by all places in it. */
struct name {
	struct name *next;
	char text[];
};

#define PLACES_TOGETHER 512

struct places {
	struct places *next;
	size_t used;
	struct image_place all[PLACES_TOGETHER];
};

struct slot {
	uint64_t address;
	struct image_place *place; /* NULL: free */
};

struct image {
	char *root;
	struct module *modules; /* by start */
	size_t module_count;
	struct slot *slots; /* open addressing */
	size_t slot_count, slots_used;
	struct places *places;
	struct name *names;
};

/* ---- modules ---- */

/* Of those that begin at one address, what is to be taken first stands last. */
static int by_start(const void *one, const void *other)
{
	const struct module *a = one, *b = other;

	if (a->seen.start != b->seen.start)
		return a->seen.start < b->seen.start ? -1 : 1;
	if (a->is_gone != b->is_gone)
		return a->is_gone ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static int by_path(const void *one, const void *other)
{
	const struct module *a = one, *b = other;
	int paths;

	if (a->seen.base != b->seen.base)
		return a->seen.base < b->seen.base ? -1 : 1;
	paths = strcmp(a->seen.path, b->seen.path);
	if (paths)
		return paths;
	return a->order < b->order ? -1 : a->order > b->order;
}

static int is_same_build(const struct module *a, const struct module *b)
{
	if (!a->seen.build_id || !b->seen.build_id)
		return a->seen.build_id == b->seen.build_id;
	return !strcmp(a->seen.build_id, b->seen.build_id);
}

/* What came and went, made modules: each once, and whether it was there to the end. */
static void modules_take(struct image *image, const struct tsdl_process *process)
{
	struct module *all = image->modules, *last = NULL;
	size_t kept = 0;

	for (size_t i = 0; i < process->module_count; i++) {
		const struct tsdl_module *from = &process->modules[i];

		all[i] = (struct module){ .seen = { .path = from->path,
						    .name = last_part(from->path),
						    .build_id = from->build_id,
						    .base = from->base,
						    .start = from->base },
					  .order = i,
					  .is_gone = from->gone };
	}
	if (process->module_count)
		qsort(all, process->module_count, sizeof(*all), by_path);
	for (size_t i = 0; i < process->module_count; i++) {
		struct module next = all[i];

		if (last && (last->seen.base != next.seen.base ||
			     strcmp(last->seen.path, next.seen.path) != 0))
			last = NULL;
		if (last)
			last->is_gone = 1; /* what ran in it is still asked for */
		if (next.is_gone)
			continue;
		if (!last || !is_same_build(last, &next))
			last = &all[kept++];
		*last = next;
	}
	image->module_count = kept;
}

/* Code of the kernel's, which no file has: its functions' names alone. */
static void kernel_open(struct image *image, struct module *module)
{
	struct image_module *seen = &module->seen;
	uint64_t bytes;

	seen->error = kernel_symbols_read(&seen->symbols, &module->kernel_names, &bytes,
					  image->root, seen->path, seen->base, seen->build_id);
	if (!bytes)
		return;
	module->low = seen->base;
	seen->end = seen->base + bytes;
}

static void module_open(struct image *image, struct module *module)
{
	struct image_module *seen = &module->seen;

	module->is_opened = 1;
	if (kernel_symbols_are(seen->path, seen->base)) {
		kernel_open(image, module);
		return;
	}
	seen->error = image_file_open(&seen->file, image->root, seen->path, seen->build_id);
	if (seen->error)
		return;
	module->low = UINT64_MAX;
	for (size_t i = 0; i < seen->file->segment_count; i++) {
		const struct code_segment *segment = &seen->file->segments[i];
		uint64_t start = seen->base + segment->address, end = start + segment->bytes;

		if (segment->type == PT_LOAD && end > seen->end)
			seen->end = end;
		if (segment->type == PT_LOAD && start < module->low)
			module->low = start;
	}
	seen->error = code_symbols_read(&seen->symbols, seen->file);
}

/* Whether the module reaches to an address behind its start, which for a program that is not PIE is 0. */
static int reaches(struct image *image, struct module *module, uint64_t address)
{
	if (!module->is_opened)
		module_open(image, module);
	if (module->seen.end)
		return address >= module->low && address < module->seen.end;
	return address >= NOWHERE_BYTES && address - module->seen.start < UNKNOWN_BYTES;
}

/*
 * The module that begins last before an address and reaches to it. One that was there to the end is taken before one
 * that went, and of two at one place the later.
 */
static struct module *module_at(struct image *image, uint64_t address)
{
	size_t low = 0, high = image->module_count;
	struct module *found = NULL;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (image->modules[middle].seen.start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t i = low; i > 0 && low - i < LOOK_BACK_MAX; i--) {
		struct module *module = &image->modules[i - 1];

		if ((found && module->is_gone) || !reaches(image, module, address))
			continue;
		if (!found || found->is_gone)
			found = module;
		if (!found->is_gone)
			break;
	}
	if (found)
		found->seen.is_asked = 1;
	return found;
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
	if (image->module_count)
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
		free(image->modules[i].kernel_names);
		code_file_close(image->modules[i].seen.file);
	}
	for (struct places *places = image->places, *next; places; places = next) {
		next = places->next;
		free(places);
	}
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

static const char *name_add(struct image *image, const struct code_symbol *symbol)
{
	char text[CODE_NAME_MAX + 1];
	struct name *name;
	size_t bytes;

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

static struct image_place *place_new(struct image *image)
{
	struct places *places = image->places;

	if (!places || places->used == PLACES_TOGETHER) {
		places = malloc(sizeof(*places));
		if (!places)
			return NULL;
		places->next = image->places;
		places->used = 0;
		image->places = places;
	}
	places->all[places->used] = (struct image_place){ 0 };
	return &places->all[places->used++];
}

/* The function there; one whose symbol has no size ends with its section: what comes then is a PLT, or data. */
static const struct code_function *function_at(const struct image_module *module, uint64_t address)
{
	const struct code_function *function = code_function_at(&module->symbols, address);

	if (!function || function->bytes || !module->file ||
	    code_file_section_at(module->file, address) ==
		    code_file_section_at(module->file, function->address))
		return function;
	return NULL;
}

/* The first place of a function has its name made, and all others share it. */
static struct image_place *place_find(struct image *image, uint64_t address)
{
	struct module *module = module_at(image, address);
	const struct code_function *function = module ? function_at(&module->seen,
								    address - module->seen.base)
						      : NULL;
	uint64_t start = function ? module->seen.base + function->address : 0;
	const struct image_place *first = function && start != address ? image_place(image, start)
								       : NULL;
	struct image_place *place = place_new(image);

	if (!place || !module)
		return place;
	place->module = &module->seen;
	if (!function)
		return place;
	place->start = start;
	place->bytes = function->bytes;
	if (first && first->start == start && first->module == &module->seen)
		place->function = first->function;
	else
		place->function = name_add(image, &module->seen.symbols.all[function->first]);
	return place;
}

const struct image_place *image_place(struct image *image, uint64_t address)
{
	struct slot *slot = slot_of(image->slots, image->slot_count, address);
	struct image_place *place = slot->place;

	if (place)
		return place;
	place = place_find(image, address);
	if (!place || slots_grow(image))
		return NULL;
	slot = slot_of(image->slots, image->slot_count, address);
	*slot = (struct slot){ address, place };
	image->slots_used++;
	return place;
}

const struct image_module *image_module_at(struct image *image, uint64_t address)
{
	struct module *module = module_at(image, address);

	return module ? &module->seen : NULL;
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

/* What a module's file has at an address. */
static size_t code_of(const struct image_module *module, uint64_t address, void *buffer,
		      size_t bytes)
{
	const struct code_segment *segment;
	uint64_t linked, left;

	if (!module || !module->file || module->file->is_debug)
		return 0;
	linked = address - module->base;
	segment = code_file_segment(module->file, linked);
	if (!segment || !code_file_is_text(module->file, linked, 1))
		return 0;
	left = segment->address + segment->file_bytes - linked;
	bytes = bytes < left ? bytes : (size_t)left;
	return code_file_read(module->file, linked, buffer, bytes) ? 0 : bytes;
}

size_t image_code(struct image *image, uint64_t address, void *buffer, size_t bytes)
{
	const struct module *module = module_at(image, address);

	return code_of(module ? &module->seen : NULL, address, buffer, bytes);
}

void image_check(struct image *image, uint64_t address, const uint8_t *code, size_t bytes)
{
	const struct image_place *place = slot_of(image->slots, image->slot_count, address)->place;
	uint8_t read[TRAIL_BLOCK_BYTES_MAX];
	size_t has;

	if (!place || !place->module || bytes > sizeof(read))
		return;
	has = code_of(place->module, address, read, bytes);
	place->module->others += has && memcmp(read, code, has) != 0;
}

struct image_module *image_module(struct image *image, size_t index)
{
	return index < image->module_count ? &image->modules[index].seen : NULL;
}
