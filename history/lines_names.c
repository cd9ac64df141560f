/* SPDX-License-Identifier: MIT */
/* Sources and lines, each once. */
#include "history/lines_own.h"

#include "base/array.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_FIRST 1024u

static uint64_t mix(uint64_t value)
{
	value *= 0x9e3779b97f4a7c15ull;
	return value ^ value >> 32;
}

static uint64_t hash_of(const char *text)
{
	uint64_t hash = 14695981039346656037ull; /* FNV-1a */

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 1099511628211ull;
	return mix(hash);
}

/* A table twice as large, empty; or the same, while it is not half full. */
static int slots_grow(uint32_t **slots, size_t *slot_count, size_t used, int *is_new)
{
	size_t count = *slot_count ? *slot_count * 2 : SLOTS_FIRST;
	uint32_t *larger;

	*is_new = 0;
	if (used * 2 < *slot_count)
		return 0;
	larger = calloc(count, sizeof(*larger));
	if (!larger)
		return -ENOMEM;
	free(*slots);
	*slots = larger;
	*slot_count = count;
	*is_new = 1;
	return 0;
}

/*
 * A path that the compiler got may include the folder that it worked in: /shop/build/../order.c.
 * Like lcov, take that out by the words alone.
 */
static void path_tidy(char *path)
{
	char *root = path + (*path == '/'), *to = root, *floor = root;
	const char *from = root;
	int more = *from != '\0';

	while (more) {
		size_t bytes = strcspn(from, "/");
		int is_up = bytes == 2 && !memcmp(from, "..", 2);
		int is_here = !bytes || (bytes == 1 && *from == '.');

		more = from[bytes] == '/';
		if (is_up && to > floor) {
			for (to--; to > floor && to[-1] != '/'; to--)
				;
		} else if (!is_here && !(is_up && root != path)) {
			memmove(to, from, bytes);
			to += bytes;
			*to++ = '/';
			if (is_up)
				floor = to;
		}
		from += bytes + (size_t)more;
	}
	if (to > root)
		to--;
	*to = '\0';
}

static void source_slots_fill(struct lines *lines)
{
	for (size_t i = 0; i < lines->source_count; i++) {
		size_t at = hash_of(lines->sources[i].path) & (lines->source_slot_count - 1);

		while (lines->source_slots[at])
			at = (at + 1) & (lines->source_slot_count - 1);
		lines->source_slots[at] = (uint32_t)i + 1;
	}
}

int source_intern(struct lines *lines, const char *path, uint32_t *index)
{
	char tidy[PATH_MAX];
	size_t at, bytes;
	int is_new;

	/* what is cut is longer than a file's name can be */
	bytes = strnlen(path, sizeof(tidy) - 2);
	memcpy(tidy, path, bytes);
	tidy[bytes] = '\0';
	path_tidy(tidy);
	if (slots_grow(&lines->source_slots, &lines->source_slot_count, lines->source_count,
		       &is_new))
		return -ENOMEM;
	if (is_new)
		source_slots_fill(lines);
	at = hash_of(tidy) & (lines->source_slot_count - 1);
	while (lines->source_slots[at]) {
		*index = lines->source_slots[at] - 1;
		if (!strcmp(lines->sources[*index].path, tidy))
			return 0;
		at = (at + 1) & (lines->source_slot_count - 1);
	}
	if (array_grow(&lines->sources, &lines->source_room, lines->source_count + 1,
		       sizeof(*lines->sources)))
		return -ENOMEM;
	*index = (uint32_t)lines->source_count;
	lines->sources[*index] = (struct own_source){ .path = strdup(tidy) };
	if (!lines->sources[*index].path)
		return -ENOMEM;
	lines->source_slots[at] = (uint32_t)++lines->source_count;
	return 0;
}

static size_t line_home(const struct lines *lines, uint32_t source, uint32_t number)
{
	return mix((uint64_t)source << 32 | number) & (lines->line_slot_count - 1);
}

static void line_slots_fill(struct lines *lines)
{
	for (size_t i = 0; i < lines->line_count; i++) {
		size_t at = line_home(lines, lines->lines[i].source, lines->lines[i].number);

		while (lines->line_slots[at])
			at = (at + 1) & (lines->line_slot_count - 1);
		lines->line_slots[at] = (uint32_t)i + 1;
	}
}

int line_intern(struct lines *lines, uint32_t source, uint32_t number, uint32_t *index)
{
	const struct own_line *line;
	size_t at;
	int is_new;

	if (slots_grow(&lines->line_slots, &lines->line_slot_count, lines->line_count, &is_new))
		return -ENOMEM;
	if (is_new)
		line_slots_fill(lines);
	at = line_home(lines, source, number);
	while (lines->line_slots[at]) {
		*index = lines->line_slots[at] - 1;
		line = &lines->lines[*index];
		if (line->source == source && line->number == number)
			return 0;
		at = (at + 1) & (lines->line_slot_count - 1);
	}
	if (array_grow(&lines->lines, &lines->line_room, lines->line_count + 1,
		       sizeof(*lines->lines)))
		return -ENOMEM;
	*index = (uint32_t)lines->line_count;
	lines->lines[*index] = (struct own_line){ .source = source, .number = number };
	lines->line_slots[at] = (uint32_t)++lines->line_count;
	return 0;
}
