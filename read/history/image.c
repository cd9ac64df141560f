/* SPDX-License-Identifier: MIT */
#include "read/history/image.h"

#include "base/array.h"
#include "base/slots.h"
#include "base/texts.h"
#include "read/history/image_modules.h"
#include "read/history/jit.h"
#include "target/code/demangle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PLACES_TOGETHER 512

struct image {
	struct image *whole;	      /* whose era this is; the whole's own: all the time */
	struct image_modules modules; /* the whole's */
	struct jit jit;		      /* the whole's: code in no module */
	int with_parameters;	      /* the whole's: how functions are named */
	struct image_eras {
		struct image **all; /* by number; NULL: not asked for yet */
		size_t count, room;
	} eras, moments; /* the whole's: of tables, of times */
	struct trail_era era;
	struct slots slots;	     /* of places, by their addresses */
	struct image_place **places; /* chunks of PLACES_TOGETHER, which do not move */
	size_t chunk_room;
	uint32_t place_count;
	struct texts names; /* of functions, shared by all places in them */
};

static struct image *image_new(struct image *whole, const struct trail_era *era)
{
	struct image *image = calloc(1, sizeof(*image));

	if (!image)
		return NULL;
	image->whole = whole ? whole : image;
	image->era = *era;
	if (!slots_fit(&image->slots))
		return image;
	free(image);
	return NULL;
}

int image_open(struct image **out, const struct fact_process *process,
	       const struct image_options *options)
{
	struct image *image = *out = image_new(NULL, &(struct trail_era){ 0 });

	if (!image)
		return -ENOMEM;
	image->with_parameters = options && options->with_parameters;
	if (image_modules_open(&image->modules, process, options) ||
	    jit_open(&image->jit, options ? options->trace : NULL, process->pid,
		     process->is_kernel)) {
		image_close(image);
		*out = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* NULL: no memory. */
static struct image *era_get(struct image *whole, struct image_eras *eras,
			     const struct trail_era *era)
{
	size_t before = eras->room;

	if (array_grow(&eras->all, &eras->room, era->number + 1ul, sizeof(struct image *)))
		return NULL;
	memset(eras->all + before, 0, (eras->room - before) * sizeof(struct image *));
	if (era->number >= eras->count)
		eras->count = era->number + 1ul;
	if (!eras->all[era->number])
		eras->all[era->number] = image_new(whole, era);
	return eras->all[era->number];
}

struct image *image_in(struct image *image, const struct trail_table *table)
{
	return table ? era_get(image->whole, &image->whole->eras, &table->era) : image->whole;
}

struct image *image_then(struct image *image, uint64_t ns, uint32_t *number)
{
	struct image *whole = image->whole;
	struct trail_era era = image_modules_then(&whole->modules, ns);

	if (number)
		*number = era.number;
	return whole->modules.moment_count == 1 ? whole : era_get(whole, &whole->moments, &era);
}

static void eras_close(struct image_eras *eras)
{
	for (size_t i = 0; i < eras->count; i++)
		image_close(eras->all[i]);
	free(eras->all);
}

void image_close(struct image *image)
{
	if (!image)
		return;
	eras_close(&image->eras);
	eras_close(&image->moments);
	image_modules_release(&image->modules);
	jit_release(&image->jit);
	for (size_t i = 0; i < image->place_count; i += PLACES_TOGETHER)
		free(image->places[i / PLACES_TOGETHER]);
	free(image->places);
	texts_release(&image->names);
	free(image->slots.all);
	free(image);
}

/* ---- of a trace ---- */

int images_open(struct images *images, struct trace_reader *reader,
		const struct image_options *options)
{
	*images = (struct images){ .reader = reader };
	if (options)
		images->options = *options;
	images->options.trace = reader;
	images->all = calloc(reader->meta.process_count + 1ul, sizeof(struct image *));
	if (!images->all)
		return -ENOMEM;
	return image_files_open(&images->options.files,
				images->options.root ? images->options.root : "");
}

void images_close(struct images *images)
{
	for (uint32_t i = 0; images->all && i <= images->reader->meta.process_count; i++)
		image_close(images->all[i]);
	free(images->all);
	image_files_close(images->options.files);
	*images = (struct images){ 0 };
}

struct image *images_get(struct images *images, uint32_t process)
{
	static const struct fact_process unknown;
	const struct facts *meta = &images->reader->meta;
	uint32_t at = process < meta->process_count ? process : meta->process_count;

	if (!images->all[at])
		(void)image_open(&images->all[at],
				 at < meta->process_count ? &meta->processes[at] : &unknown,
				 &images->options);
	return images->all[at];
}

/* ---- places ---- */

static struct image_mapped *module_at(struct image *image, uint64_t address)
{
	return image_modules_at(&image->whole->modules, &image->era, address);
}

static struct image_place *place_at(const struct image *image, uint32_t number)
{
	return &image->places[number / PLACES_TOGETHER][number % PLACES_TOGETHER];
}

/* NULL: it was not asked for yet. */
static struct image_place *place_known(const struct image *image, uint64_t address)
{
	uint32_t hash = slots_hash(address), number;

	for (uint64_t at = hash; slots_next(&image->slots, hash, &at, &number);)
		if (place_at(image, number)->address == address)
			return place_at(image, number);
	return NULL;
}

static const char *name_add(struct image *image, const char *linkage)
{
	char text[IMAGE_NAME_MAX + 1];

	code_name_text(linkage, image->whole->with_parameters, text, sizeof(text));
	return texts_keep(&image->names, text, strlen(text));
}

static struct image_place *place_new(struct image *image)
{
	size_t chunk = image->place_count / PLACES_TOGETHER;

	if (!(image->place_count % PLACES_TOGETHER)) {
		if (array_grow(&image->places, &image->chunk_room, chunk + 1,
			       sizeof(*image->places)))
			return NULL;
		image->places[chunk] = calloc(PLACES_TOGETHER, sizeof(**image->places));
		if (!image->places[chunk])
			return NULL;
	}
	return place_at(image, image->place_count++);
}

/*
 * The function there; one whose symbol has no size ends with its section: what comes then is a PLT,
 * or data.
 */
static const struct code_function *function_at(const struct image_module *module, uint64_t address)
{
	const struct code_function *function = code_function_at(module->symbols, address);

	if (!function || function->bytes || !module->file ||
	    code_file_section_at(module->file, address) ==
		    code_file_section_at(module->file, function->address))
		return function;
	return NULL;
}

/* The first place of a function has its name made, and all others share it. */
static struct image_place *place_find(struct image *image, uint64_t address)
{
	struct image_mapped *mapped = module_at(image, address);
	struct image_module *module = mapped ? &mapped->seen : &image->whole->jit.mapped.seen;
	const struct code_function *function = function_at(module, address - module->base);
	uint64_t start = function ? module->base + function->address : 0;
	const struct image_place *first = function && start != address ? image_place(image, start)
								       : NULL;
	struct image_place *place = place_new(image);

	if (!place || (!mapped && !function))
		return place;
	place->module = module;
	if (!function)
		return place;
	place->start = start;
	place->bytes = function->bytes;
	place->linkage = module->symbols->all[function->first].name;
	if (first && first->start == start && first->module == module)
		place->function = first->function;
	else
		place->function = name_add(image, place->linkage);
	return place;
}

const struct image_place *image_place(struct image *image, uint64_t address)
{
	struct image_place *place = place_known(image, address);

	if (place)
		return place;
	place = place_find(image, address);
	if (!place || slots_fit(&image->slots))
		return NULL;
	place->address = address;
	slots_add(&image->slots, slots_hash(address), image->place_count - 1);
	return place;
}

const struct image_module *image_module_at(struct image *image, uint64_t address)
{
	struct image_mapped *module = module_at(image, address);

	return module ? &module->seen : NULL;
}

void image_module_line(const struct image_module *seen, uint64_t address, struct image_line *line)
{
	const struct image_mapped *module = (const struct image_mapped *)(const void *)seen;
	const struct code_row *row = NULL;

	if (module->read)
		row = code_row_at(image_files_rows(module->read), address - seen->base);
	*line = row ? (struct image_line){ row->source, row->line } : (struct image_line){ 0 };
}

void image_line(struct image *image, uint64_t address, struct image_line *line)
{
	const struct image_mapped *module = module_at(image, address);

	*line = (struct image_line){ 0 };
	if (module)
		image_module_line(&module->seen, address, line);
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
	const struct image_mapped *module = module_at(image, address);

	return code_of(module ? &module->seen : NULL, address, buffer, bytes);
}

void image_check(struct image *image, const struct trail_table *table,
		 const struct trail_block *block)
{
	const struct image *whole = image->whole, *in;
	const uint8_t *code = trail_table_code(table, block);
	uint8_t read[TRAIL_BLOCK_BYTES_MAX];
	const struct image_place *place;
	size_t has;

	in = table->era.number < whole->eras.count ? whole->eras.all[table->era.number] : NULL;
	place = in ? place_known(in, block->start) : NULL;
	if (!code || !place || !place->module || block->bytes > sizeof(read))
		return;
	has = code_of(place->module, block->start, read, block->bytes);
	place->module->others += has && memcmp(read, code, has) != 0;
}

struct image_module *image_module(struct image *image, size_t index)
{
	const struct image_modules *modules = &image->whole->modules;
	struct jit *jit = &image->whole->jit;

	if (index == modules->count && jit->symbols.count)
		return &jit->mapped.seen;
	return index < modules->count ? &modules->all[index].seen : NULL;
}

int image_has(struct image *image, const struct image_module *module)
{
	return image_modules_has((const struct image_mapped *)(const void *)module, &image->era);
}
