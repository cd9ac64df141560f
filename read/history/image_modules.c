/* SPDX-License-Identifier: MIT */
#include "read/history/image_modules.h"

#include "base/name_match.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define LOOK_BACK_MAX 64u /* modules of the same time that may lie around another's start */
#define PASSED_MAX 4096u  /* of any time */
#define UNKNOWN_BYTES (1ull << 30) /* that a module may have whose file can't be had */

#define NOWHERE_BYTES 4096 /* of memory that nothing is ever mapped at */

static const struct code_symbols no_symbols;

/* Of those that begin at one address, the preferred one is last. */
static int by_start(const void *one, const void *other)
{
	const struct image_mapped *a = one, *b = other;

	if (a->seen.start != b->seen.start)
		return a->seen.start < b->seen.start ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

/* A module that came or went, and when. */
struct change {
	const struct fact_module *of;
	uint32_t order;
};

static int by_path(const void *one, const void *other)
{
	const struct change *a = one, *b = other;
	int paths;

	if (a->of->base != b->of->base)
		return a->of->base < b->of->base ? -1 : 1;
	paths = strcmp(a->of->path, b->of->path);
	if (paths)
		return paths;
	return a->order < b->order ? -1 : a->order > b->order;
}

/* What ran at that time was another build than the file; without a build id only its time shows. */
static int is_replaced(const struct image_modules *modules, const char *path, const char *build_id,
		       uint64_t ns)
{
	return !build_id && ns && image_files_is_later(modules->files, path, ns);
}

static int is_same_build(const struct image_modules *modules, const struct image_mapped *last,
			 const struct fact_module *module)
{
	const char *one = last->seen.build_id, *other = module->build_id;

	if (one || other)
		return one && other && !strcmp(one, other);
	return !is_replaced(modules, module->path, NULL, last->ns) ||
	       is_replaced(modules, module->path, NULL, module->ns);
}

/*
 * A module that came: that of `last` again, or another. What lay there until now did not go, but
 * its place is taken.
 */
static struct image_mapped *comes(struct image_modules *modules, struct image_mapped *last,
				  const struct change *change, size_t stays)
{
	struct image_stay *stay = &modules->stays[stays];

	if (last && stay[-1].to == UINT32_MAX)
		stay[-1].to = change->order;
	if (!last || !is_same_build(modules, last, change->of)) {
		last = &modules->all[modules->count++];
		*last = (struct image_mapped){ .seen = { .path = change->of->path,
							 .name = name_last_part(change->of->path),
							 .build_id = change->of->build_id,
							 .base = change->of->base,
							 .start = change->of->base,
							 .symbols = &no_symbols },
					       .ns = change->of->ns,
					       .stays = stay };
	}
	last->order = change->order;
	last->stay_count++;
	*stay = (struct image_stay){ change->order, UINT32_MAX };
	return last;
}

/* What came and went, made modules: each once, and when it was there. */
static void modules_take(struct image_modules *modules, const struct change *changes, size_t count)
{
	struct image_mapped *last = NULL;
	size_t stays = 0;

	for (size_t i = 0; i < count; i++) {
		const struct change *change = &changes[i];

		if (last && (last->seen.base != change->of->base ||
			     strcmp(last->seen.path, change->of->path) != 0))
			last = NULL;
		if (!change->of->gone)
			last = comes(modules, last, change, stays++);
		else if (last && modules->stays[stays - 1].to == UINT32_MAX)
			modules->stays[stays - 1].to = change->order;
	}
}

static int by_base(const void *one, const void *other)
{
	const struct change *a = one, *b = other;

	if (a->of->base != b->of->base)
		return a->of->base < b->of->base ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

/*
 * A module that comes may take a place of what went before, or of what was at its base: a moment
 * begins when the last of these went, or it comes. `again` has the orders of those that come to a
 * base that had one.
 */
static void moments_take(struct image_modules *modules, const struct fact_process *process,
			 const uint8_t *again)
{
	uint64_t gone_ns = 0, ns;
	int is_any_gone = 0;

	modules->moment_count = 1;
	for (size_t i = 0; i < process->module_count; i++) {
		const struct fact_module *module = &process->modules[i];
		struct image_moment *moment = &modules->moments[modules->moment_count];

		if (module->gone) {
			is_any_gone = 1;
			gone_ns = module->ns;
			continue;
		}
		ns = is_any_gone && gone_ns ? gone_ns : module->ns;
		if (!ns || (!is_any_gone && !again[i]))
			continue;
		*moment = (struct image_moment){ ns > moment[-1].ns ? ns : moment[-1].ns,
						 (uint32_t)i };
		modules->moment_count++;
		is_any_gone = 0;
	}
}

struct trail_era image_modules_then(const struct image_modules *modules, uint64_t ns)
{
	size_t low = 0, high = modules->moment_count;

	while (low + 1 < high) {
		size_t middle = low + (high - low) / 2;

		if (modules->moments[middle].ns <= ns)
			low = middle;
		else
			high = middle;
	}
	return (struct trail_era){ (uint32_t)low, modules->moments[low].from,
				   low + 1 < modules->moment_count ? modules->moments[low + 1].from
								   : 0 };
}

int image_modules_open(struct image_modules *modules, const struct fact_process *process,
		       const struct image_options *options)
{
	struct change *changes = calloc(process->module_count + 1, sizeof(*changes));
	uint8_t *again = calloc(process->module_count + 1, 1);

	*modules = (struct image_modules){
		.all = calloc(process->module_count + 1, sizeof(*modules->all)),
		.stays = calloc(process->module_count + 1, sizeof(*modules->stays)),
		.moments = calloc(process->module_count + 2, sizeof(*modules->moments)),
	};
	modules->files = options ? options->files : NULL;
	if (!modules->files) {
		const char *root = options && options->root ? options->root : "";

		(void)image_files_open(&modules->own_files, root);
		modules->files = modules->own_files;
	}
	if (!changes || !again || !modules->files || !modules->all || !modules->stays ||
	    !modules->moments) {
		free(changes);
		free(again);
		return -ENOMEM;
	}
	for (size_t i = 0; i < process->module_count; i++)
		changes[i] = (struct change){ &process->modules[i], (uint32_t)i };
	qsort(changes, process->module_count, sizeof(*changes), by_base);
	for (size_t i = 1; i < process->module_count; i++)
		again[changes[i].order] = changes[i].of->base == changes[i - 1].of->base;
	moments_take(modules, process, again);
	free(again);
	qsort(changes, process->module_count, sizeof(*changes), by_path);
	modules_take(modules, changes, process->module_count);
	qsort(modules->all, modules->count, sizeof(*modules->all), by_start);
	free(changes);
	return 0;
}

void image_modules_release(struct image_modules *modules)
{
	free(modules->all);
	free(modules->stays);
	free(modules->moments);
	image_files_close(modules->own_files);
	*modules = (struct image_modules){ 0 };
}

/* The range that its file's segments cover. */
static void reach_of(struct image_mapped *module)
{
	struct image_module *seen = &module->seen;

	module->low = UINT64_MAX;
	for (size_t i = 0; i < seen->file->segment_count; i++) {
		const struct code_segment *segment = &seen->file->segments[i];
		uint64_t start = seen->base + segment->address, end = start + segment->bytes;

		if (segment->type == PT_LOAD && end > seen->end)
			seen->end = end;
		if (segment->type == PT_LOAD && start < module->low)
			module->low = start;
	}
}

static void module_open(struct image_modules *modules, struct image_mapped *module)
{
	struct image_module *seen = &module->seen;
	struct image_read *read;

	module->is_opened = 1;
	if (is_replaced(modules, seen->path, seen->build_id, module->ns)) {
		seen->error = -WM_E_FILE_REPLACED;
		return;
	}
	read = image_files_get(modules->files, seen->path, seen->build_id, seen->base);
	module->read = read;
	if (!read) {
		seen->error = -ENOMEM;
		return;
	}
	seen->file = read->file;
	seen->error = read->error;
	seen->symbols = &read->symbols;
	if (read->file) {
		reach_of(module);
	} else if (read->kernel_bytes) {
		module->low = seen->base;
		seen->end = seen->base + read->kernel_bytes;
	}
}

/*
 * Whether the module reaches to an address behind its start, which for a program that is not PIE is
 * 0.
 */
static int reaches(struct image_modules *modules, struct image_mapped *module, uint64_t address)
{
	if (!module->is_opened)
		module_open(modules, module);
	if (module->seen.end)
		return address >= module->low && address < module->seen.end;
	return address >= NOWHERE_BYTES && address - module->seen.start < UNKNOWN_BYTES;
}

enum presence { NOT_THERE, WENT, STAYED };

/*
 * Whether a module was there in an era: decided by its last stay that began before the era's end.
 * Stays don't overlap.
 */
static enum presence presence_in(const struct image_mapped *module, const struct trail_era *era)
{
	uint32_t to = era->to ? era->to : UINT32_MAX;
	size_t low = 0, high = module->stay_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (module->stays[middle].from < to)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || module->stays[low - 1].to < era->from)
		return NOT_THERE;
	return module->stays[low - 1].to >= to ? STAYED : WENT;
}

struct image_mapped *image_modules_at(struct image_modules *modules, const struct trail_era *era,
				      uint64_t address)
{
	size_t low = 0, high = modules->count, passed = 0, seen = 0;
	struct image_mapped *found = NULL;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (modules->all[middle].seen.start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	while (low-- && passed++ < PASSED_MAX && seen < LOOK_BACK_MAX) {
		struct image_mapped *module = &modules->all[low];
		enum presence presence = presence_in(module, era);

		seen += presence != NOT_THERE;
		if (presence == NOT_THERE || (found && presence == WENT) ||
		    !reaches(modules, module, address))
			continue;
		found = module;
		if (presence == STAYED)
			break;
	}
	if (found)
		found->seen.is_asked = 1;
	return found;
}

int image_modules_has(const struct image_mapped *module, const struct trail_era *era)
{
	return presence_in(module, era) != NOT_THERE;
}
