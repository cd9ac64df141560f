/* SPDX-License-Identifier: MIT */
/* Sources and lines, each once. */
#include "read/history/lines_own.h"

#include "base/array.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

static uint32_t mix(uint64_t value)
{
	value *= 0x9e3779b97f4a7c15ull;
	return (uint32_t)(value ^ value >> 32);
}

static uint32_t hash_of(const char *text)
{
	uint64_t hash = 14695981039346656037ull; /* FNV-1a */

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 1099511628211ull;
	return mix(hash);
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

int lines_source_intern(struct lines *lines, const char *path, uint32_t *index)
{
	char tidy[PATH_MAX];
	uint32_t hash;
	size_t bytes;

	/* what is cut is longer than a file's name can be */
	bytes = strnlen(path, sizeof(tidy) - 2);
	memcpy(tidy, path, bytes);
	tidy[bytes] = '\0';
	path_tidy(tidy);
	hash = hash_of(tidy);
	if (slots_fit(&lines->source_slots))
		return -ENOMEM;
	for (uint64_t at = hash; slots_next(&lines->source_slots, hash, &at, index);)
		if (!strcmp(lines->sources[*index].path, tidy))
			return 0;
	if (array_grow(&lines->sources, &lines->source_room, lines->source_count + 1,
		       sizeof(*lines->sources)))
		return -ENOMEM;
	*index = (uint32_t)lines->source_count;
	lines->sources[*index] = (struct own_source){ .path = strdup(tidy) };
	if (!lines->sources[*index].path)
		return -ENOMEM;
	lines->source_count++;
	slots_add(&lines->source_slots, hash, *index);
	return 0;
}

int line_intern(struct lines *lines, uint32_t source, uint32_t number, uint32_t *index)
{
	uint32_t hash = mix((uint64_t)source << 32 | number);

	if (slots_fit(&lines->line_slots))
		return -ENOMEM;
	for (uint64_t at = hash; slots_next(&lines->line_slots, hash, &at, index);)
		if (lines->lines[*index].source == source && lines->lines[*index].number == number)
			return 0;
	if (array_grow(&lines->lines, &lines->line_room, lines->line_count + 1,
		       sizeof(*lines->lines)))
		return -ENOMEM;
	*index = (uint32_t)lines->line_count;
	lines->lines[*index] = (struct own_line){ .source = source, .number = number };
	lines->line_count++;
	slots_add(&lines->line_slots, hash, *index);
	return 0;
}
