/* SPDX-License-Identifier: MIT */
#include "read/history/spot.h"

#include "target/code/demangle.h"
#include "target/code/dwarf.h"
#include "target/code/inlined.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESTORER_BYTES 9

/*
 * mov $15, %rax; syscall: rt_sigreturn(2). Unwinders know it by these bytes, so all libcs have
 * them.
 */
int spot_is_restorer(struct image *image, uint64_t address)
{
	static const uint8_t restorer[RESTORER_BYTES] = { 0x48, 0xc7, 0xc0, 0x0f, 0,
							  0,	0,    0x0f, 0x05 };
	uint8_t code[RESTORER_BYTES];

	return image_code(image, address, code, sizeof(code)) == sizeof(code) &&
	       !memcmp(code, restorer, sizeof(code));
}

/* The texts are counted first, with `to` NULL, then copied. */
struct texts {
	char *to;
	size_t bytes;
};

static const char *words_add(struct texts *texts, const char *text)
{
	size_t bytes = text ? strlen(text) + 1 : 0;
	char *to = texts->to ? texts->to + texts->bytes : NULL;

	if (to && text)
		memcpy(to, text, bytes);
	texts->bytes += bytes;
	return text ? to : NULL;
}

static const char *path_add(struct texts *texts, const struct code_inlined *inlined)
{
	const char *source = inlined->source, *folder = inlined->folder;
	char *to = texts->to ? texts->to + texts->bytes : NULL;
	size_t bytes;

	if (!source || !folder || !code_dwarf_is_apart(source, folder))
		return words_add(texts, source);
	bytes = strlen(folder) + strlen(source) + 2;
	if (to)
		snprintf(to, bytes, "%s/%s", folder, source);
	texts->bytes += bytes;
	return to;
}

static void fill(struct spot *spot, struct texts *texts, const struct image_place *place,
		 const struct image_line *line, const struct code_inlined *inlined)
{
	char name[IMAGE_NAME_MAX + 1];
	size_t last = spot->count - 1;

	spot->module = words_add(texts, place->module ? place->module->name : NULL);
	for (size_t i = 0; i <= last; i++) {
		struct spot_frame *frame = &spot->frames[i];
		const char *function = i == last ? NULL : inlined[i].name;
		const char *linkage = i == last ? place->linkage : inlined[i].linkage;

		if (linkage) {
			code_name_text(linkage, 0, name, sizeof(name));
			function = name;
		}
		frame->function = words_add(texts, function && *function ? function : NULL);
		frame->source = i ? path_add(texts, &inlined[i - 1])
				  : words_add(texts, line->source);
		frame->line = i ? inlined[i - 1].line : line->line;
	}
}

int spot_find(struct spot *spot, struct image *image, uint64_t address)
{
	const struct image_place *place = image_place(image, address);
	struct code_inlined inlined[CODE_INLINED_MAX];
	struct texts texts = { 0 };
	struct image_line line;

	*spot = (struct spot){ .count = 1 };
	if (!place)
		return -ENOMEM;
	image_line(image, address, &line);
	/* without a line of its own the code has no debug information */
	if (line.source && place->module && place->module->file)
		spot->count += code_inlined_at(place->module->file, address - place->module->base,
					       inlined);
	spot->frames = calloc(spot->count, sizeof(*spot->frames));
	if (!spot->frames)
		return -ENOMEM;
	fill(spot, &texts, place, &line, inlined);
	texts = (struct texts){ .to = spot->texts = malloc(texts.bytes + 1) };
	if (!spot->texts)
		return -ENOMEM;
	fill(spot, &texts, place, &line, inlined);
	if (place->function)
		spot->offset = address - place->start;
	else if (place->module)
		spot->offset = address - place->module->base;
	return 0;
}

void spot_release(struct spot *spot)
{
	free(spot->frames);
	free(spot->texts);
	*spot = (struct spot){ 0 };
}

static int is_same_text(const char *one, const char *other)
{
	return one == other || (one && other && !strcmp(one, other));
}

int spot_is_same(const struct spot *one, const struct spot *other)
{
	if (one->count != other->count)
		return 0;
	for (size_t i = 0; i < one->count; i++) {
		const struct spot_frame *a = &one->frames[i], *b = &other->frames[i];

		if (!a->source || a->line != b->line || !is_same_text(a->source, b->source) ||
		    !is_same_text(a->function, b->function))
			return 0;
	}
	return 1;
}
