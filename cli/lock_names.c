/* SPDX-License-Identifier: MIT */
#include "cli/lock_names.h"

#include "base/array.h"
#include "target/code/demangle.h"
#include "target/code/symbol.h"
#include "target/expression/part_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 512

struct lock_name {
	uint32_t process;
	uint64_t address;
	char *text;
};

/* The name of a lock in a module's data, at an address as linked. */
static void data_name(struct code_file *file, const char *module, uint64_t address, uint8_t bytes,
		      char text[NAME_BYTES])
{
	char symbol[NAME_BYTES / 2], part[NAME_BYTES / 2] = "", *offset;

	if (!file || code_symbol_data_at(file, address, symbol, sizeof(symbol))) {
		snprintf(text, NAME_BYTES, "%s+0x%" PRIx64, module, address);
		return;
	}
	offset = strrchr(symbol, '+');
	if (offset)
		*offset++ = '\0';
	if (!code_demangle(symbol, 0, text, NAME_BYTES / 2))
		strcpy(text, symbol);
	if (offset && expression_part_name(file, text, address, bytes, part, sizeof(part)))
		part[0] = '\0';
	snprintf(text + strlen(text), NAME_BYTES - strlen(text), "%s%s%s", part,
		 offset && !part[0] ? "+" : "", offset && !part[0] ? offset : "");
}

const char *lock_name(struct lock_names *names, struct images *images, uint32_t process,
		      uint64_t ns, uint64_t address, uint8_t bytes)
{
	struct image *image = images_get(images, process);
	const struct image_place *place;
	char text[NAME_BYTES];

	for (size_t i = 0; i < names->count; i++)
		if (names->all[i].process == process && names->all[i].address == address)
			return names->all[i].text;
	if (array_grow(&names->all, &names->room, names->count + 1, sizeof(*names->all)))
		return NULL;
	if (image)
		image = image_then(image, ns, NULL);
	place = image ? image_place(image, address) : NULL; /* opens the module's file */
	if (place && place->module)
		data_name(place->module->file, place->module->name, address - place->module->base,
			  bytes, text);
	else
		snprintf(text, sizeof(text), "0x%" PRIx64, address);
	names->all[names->count] = (struct lock_name){ process, address, strdup(text) };
	return names->all[names->count++].text;
}

void lock_names_release(struct lock_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->all[i].text);
	free(names->all);
	*names = (struct lock_names){ 0 };
}
