/* SPDX-License-Identifier: MIT */
#include "read/history/kernel_symbols.h"

#include "abi/trail.h"
#include "base/array.h"
#include "base/kernel_image.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define NAMES_MAX (64u << 20) /* of text; a kernel has some 5 MiB */

struct reading {
	struct code_symbols *symbols;
	const char *module; /* of these lines; NULL: of those that have none */
	uint64_t base;
	char *names;
	size_t used, room;
};

int kernel_symbols_are(const char *path, uint64_t base)
{
	return path[0] == '[' && base >= TRAIL_KERNEL;
}

/* ---- whether it is the one that ran ---- */

static int is_build(const char *root, const char *build_id)
{
	uint8_t id[KERNEL_IMAGE_ID_BYTES];
	char hex[2 * KERNEL_IMAGE_ID_BYTES + 1] = "";
	size_t bytes = kernel_image_build_id(root, id);

	for (size_t i = 0; i < bytes; i++)
		snprintf(hex + 2 * i, 3, "%02x", id[i]);
	return !build_id || !strcmp(hex, build_id);
}

struct sought {
	const char *path;
	uint64_t base;
};

static int is_sought(const char *name, uint64_t address, void *data)
{
	const struct sought *sought = data;
	size_t bytes = strlen(name);

	return address == sought->base && !strncmp(sought->path + 1, name, bytes) &&
	       !strcmp(sought->path + 1 + bytes, "]");
}

static int check(const char *root, const char *path, uint64_t base, const char *build_id)
{
	struct sought sought = { path, base };
	uint64_t start = kernel_image_start(root);
	int is_it = strcmp(path, KERNEL_PATH) != 0 ? kernel_image_modules(root, is_sought, &sought)
						   : start == base && is_build(root, build_id);

	if (!start)
		return -EACCES;
	return is_it ? 0 : -WM_E_FILE_REPLACED;
}

/* ---- the list ---- */

static int take_symbol(const struct kernel_symbol *from, void *data)
{
	struct reading *reading = data;
	struct code_symbol symbol = { .unit = "" };
	size_t bytes = strlen(from->name) + 1;

	if (from->address < reading->base ||
	    strcmp(from->module, reading->module ? reading->module : "") != 0)
		return 0;
	if (reading->used + bytes > NAMES_MAX ||
	    array_grow(&reading->names, &reading->room, reading->used + bytes, 1) ||
	    array_grow(&reading->symbols->all, &reading->symbols->room, reading->symbols->count + 1,
		       sizeof(*reading->symbols->all)))
		return -ENOMEM;
	memcpy(reading->names + reading->used, from->name, bytes);
	/*
	 * `names` moves as it grows: kernel_symbols_read() makes pointers of these, once all is
	 * read
	 */
	symbol.name = (const char *)reading->used;
	symbol.address = from->address - reading->base;
	symbol.bind = islower((unsigned char)from->kind) ? BIND_LOCAL : BIND_GLOBAL;
	/* a symbol that is no code ends the one before it */
	symbol.is_part = !strchr("tTwW", from->kind);
	reading->symbols->all[reading->symbols->count++] = symbol;
	reading->used += bytes;
	return 0;
}

static int by_address(const void *one, const void *other)
{
	const struct code_symbol *a = one, *b = other;

	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	if (a->bind != b->bind)
		return a->bind < b->bind ? -1 : 1;
	return a->name < b->name ? -1 : a->name > b->name; /* as they came */
}

/*
 * Sorted, functions made of those at one address; one ends where the next begins. Returns where all
 * end.
 */
static uint64_t functions_make(struct code_symbols *symbols)
{
	uint64_t end = 0;

	if (symbols->count)
		qsort(symbols->all, symbols->count, sizeof(*symbols->all), by_address);
	for (size_t i = 0, next; i < symbols->count; i = next) {
		uint64_t address = symbols->all[i].address;

		for (next = i; next < symbols->count && symbols->all[next].address == address;)
			next++;
		/* the end of the last is unknown */
		end = next < symbols->count ? symbols->all[next].address : address + 1;
		for (size_t j = i; j < next; j++) {
			int is_code = !symbols->all[j].is_part;

			symbols->all[j].bytes = end - address;
			symbols->all[j].is_part = 0;
			if (is_code &&
			    (!symbols->function_count ||
			     symbols->functions[symbols->function_count - 1].address != address))
				symbols->functions
					[symbols->function_count++] = (struct code_function){
					.address = address,
					.bytes = end - address,
					.first = j,
					.count = 1
				};
		}
	}
	return end;
}

int kernel_symbols_read(struct code_symbols *symbols, char **names, uint64_t *bytes,
			const char *root, const char *path, uint64_t base, const char *build_id)
{
	struct reading reading = { .symbols = symbols,
				   .module = strcmp(path, KERNEL_PATH) != 0 ? path : NULL,
				   .base = base };
	int err = check(root, path, base, build_id);

	*symbols = (struct code_symbols){ 0 };
	*names = NULL;
	*bytes = 0;
	if (!err)
		err = kernel_image_symbols(root, take_symbol, &reading);
	if (!err && symbols->count) {
		symbols->functions = calloc(symbols->count, sizeof(*symbols->functions));
		err = symbols->functions ? 0 : -ENOMEM;
	}
	if (err) {
		free(reading.names);
		code_symbols_release(symbols);
		return err;
	}
	for (size_t i = 0; i < symbols->count; i++)
		symbols->all[i].name = reading.names + (size_t)symbols->all[i].name;
	*names = reading.names;
	*bytes = functions_make(symbols);
	return 0;
}
