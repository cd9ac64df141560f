/* SPDX-License-Identifier: MIT */
#include "read/history/functions.h"

#include "abi/site.h"
#include "abi/trail.h"
#include "base/array.h"
#include "base/kernel_image.h"
#include "target/code/file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The key of functions without a name: code entered there is not the module's remaining code. */
enum key_kind { KEY_NAMED, KEY_ENTERED, KEY_REST, KEY_STUBS, KEY_ENTRIES };

int functions_open(struct functions *functions, struct image *image)
{
	*functions = (struct functions){ .image = image };
	/* one that fits nothing, so that functions_block() always has a last one */
	functions->maps = calloc(1, sizeof(*functions->maps));
	if (!functions->maps)
		return -ENOMEM;
	functions->map_count = functions->map_room = 1;
	return 0;
}

void functions_close(struct functions *functions)
{
	for (size_t i = 0; i < functions->count; i++)
		free(functions->all[i]);
	for (size_t i = 0; i < functions->map_count; i++)
		free(functions->maps[i].of);
	free(functions->all);
	free(functions->maps);
	free(functions->slots.all);
	*functions = (struct functions){ 0 };
}

/* The function with that key; if it does not exist yet, it is made like `like`. */
static const struct function *function_of(struct functions *functions, enum key_kind kind,
					  uint64_t key, const struct function *like)
{
	uint32_t hash = slots_hash(key + kind), number;
	struct function *function;

	if (slots_fit(&functions->slots))
		return NULL;
	for (uint64_t at = hash; slots_next(&functions->slots, hash, &at, &number);) {
		function = functions->all[number];
		if (function->key == key && function->key_kind == (uint8_t)kind &&
		    function->module == like->module)
			return function;
	}
	if (array_grow(&functions->all, &functions->room, functions->count + 1,
		       sizeof(*functions->all)))
		return NULL;
	function = malloc(sizeof(*function));
	if (!function)
		return NULL;
	*function = *like;
	function->key = key;
	function->key_kind = (uint8_t)kind;
	function->number = (uint32_t)functions->count;
	functions->all[functions->count++] = function;
	slots_add(&functions->slots, hash, function->number);
	return function;
}

/* ---- what an address is of ---- */

static int is_stub(const struct image_module *module, uint64_t address)
{
	const struct code_section *section = module->file
						     ? code_file_section_at(module->file,
									    address - module->base)
						     : NULL;

	return section && (!strncmp(section->name, ".plt", 4) || !strcmp(section->name, ".iplt"));
}

/* Marker.h gives these 32 bytes no name. */
static int is_entry(const struct image_module *module, uint64_t address)
{
	static const uint8_t first[] = { SITE_ENTRY_FIRST };
	uint64_t start = (address - module->base) & ~(uint64_t)(SITE_ENTRY_BYTES - 1);
	uint8_t code[SITE_ENTRY_BYTES];

	return module->file && !code_file_read(module->file, start, code, sizeof(code)) &&
	       !memcmp(code, first, sizeof(first)) && code[SITE_ENTRY_JUMP] == SITE_ARMED;
}

static uint32_t flags_of(const struct image_place *place)
{
	const struct image_module *module = place->module;
	const struct code_function *symbol = code_function_at(module->symbols,
							      place->start - module->base);
	uint32_t flags = symbol && symbol->is_part ? FUNCTION_IS_PART : 0;

	/* not in the parameters' types */
	if (memmem(place->function, strcspn(place->function, "("), "setjmp", strlen("setjmp")))
		flags |= FUNCTION_SETS_JUMP;
	return flags;
}

const struct function *functions_at(struct functions *functions, const struct trail_table *table,
				    uint64_t address)
{
	return functions_in(functions, image_in(functions->image, table), address);
}

const struct function *functions_in(struct functions *functions, struct image *image,
				    uint64_t address)
{
	const struct image_place *place = image ? image_place(image, address) : NULL;
	struct function like = { 0 };

	if (!place)
		return NULL;
	like.module = place->module;
	if (place->module && is_stub(place->module, address)) {
		like.flags = FUNCTION_IS_STUB;
		return function_of(functions, KEY_STUBS, 0, &like);
	}
	if (!place->function && place->module && is_entry(place->module, address)) {
		like.flags = FUNCTION_IS_ENTRY;
		return function_of(functions, KEY_ENTRIES, 0, &like);
	}
	if (!place->function)
		return function_of(functions, KEY_REST, 0, &like);
	like.name = place->function;
	like.linkage = place->linkage;
	like.start = place->start;
	like.bytes = place->bytes;
	like.flags = flags_of(place);
	return function_of(functions, KEY_NAMED, like.start, &like);
}

const struct function *functions_entered(struct functions *functions, const struct function *at,
					 uint64_t address)
{
	struct function like = *at;

	if (at->name)
		return at;
	like.start = address;
	return function_of(functions, KEY_ENTERED, address, &like);
}

const struct function *functions_named(struct functions *functions, const char *name,
				       uint64_t start)
{
	return function_of(functions, KEY_NAMED, start,
			   &(struct function){ .name = name, .start = start });
}

int function_is_kernel(const struct function *function)
{
	return function->start >= TRAIL_KERNEL ||
	       (function->module && !strcmp(function->module->path, KERNEL_PATH));
}

int function_holds_part(const struct function *function, const struct function *other)
{
	size_t bytes = function->linkage ? strlen(function->linkage) : 0;

	/* foo.cold; what is made of it for people may be without it, or cut */
	return bytes && function->module == other->module &&
	       !strncmp(function->linkage, other->linkage, bytes) && other->linkage[bytes] == '.';
}

const char *function_text(const struct function *function, char *text, size_t bytes)
{
	const struct image_module *module = function->module;
	const char *file = module ? module->name : "unknown";

	if (function->name)
		return function->name;
	if (module && function->flags & FUNCTION_IS_STUB)
		snprintf(text, bytes, "%s@plt", file);
	else if (!function->start)
		snprintf(text, bytes, "[%s]", file);
	else if (module)
		snprintf(text, bytes, "%s+%#" PRIx64, file, function->start - module->base);
	else
		snprintf(text, bytes, "%#" PRIx64, function->start);
	return text;
}

static const char *path_of(const struct function *function)
{
	return function->module ? function->module->path : "";
}

/* As linked; of code without a name 0. */
static uint64_t start_of(const struct function *function)
{
	return function->start && function->module ? function->start - function->module->base
						   : function->start;
}

int function_compare(const struct function *a, const struct function *b)
{
	char first[FUNCTION_TEXT_BYTES], second[FUNCTION_TEXT_BYTES];
	int order = a == b ? 0 : strcmp(path_of(a), path_of(b));

	if (a != b && !order)
		order = strcmp(function_text(a, first, sizeof(first)),
			       function_text(b, second, sizeof(second)));
	return order ? order : (start_of(a) > start_of(b)) - (start_of(a) < start_of(b));
}

struct image_line function_line(const struct function *function)
{
	struct image_line line = { 0 };

	if (function->start && function->module)
		image_module_line(function->module, function->start, &line);
	return line;
}

/* ---- by id ---- */

static int map_use(struct functions *functions, const struct trail_table *table)
{
	size_t at = table->number + 1ul;
	struct function_map *map;

	if (array_grow_zeroed(&functions->maps, &functions->map_room, at + 1,
			      sizeof(*functions->maps)))
		return -ENOMEM;
	if (functions->map_count <= at)
		functions->map_count = at + 1;
	map = &functions->maps[at];
	if (map->table != table) {
		free(map->of);
		map->of = calloc((size_t)table->count + 1, sizeof(*map->of));
		if (!map->of)
			return -ENOMEM;
		map->table = table;
		map->count = table->count;
	}
	functions->last = at;
	return 0;
}

const struct function *functions_block_find(struct functions *functions,
					    const struct trail_table *table, uint32_t id)
{
	struct function_map *map;

	if (map_use(functions, table))
		return NULL;
	map = &functions->maps[functions->last];
	if (!map->of[id])
		map->of[id] = functions_at(functions, table, table->blocks[id].start);
	return map->of[id];
}
