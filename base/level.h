/* SPDX-License-Identifier: MIT */
/*
 * The log levels that markers may have (waymark/marker.h, WAYMARK_LEVEL). They are LTTng's, and so
 * are their numbers: the smaller, the more urgent.
 */
#ifndef BASE_LEVEL_H
#define BASE_LEVEL_H

#include <stddef.h>
#include <string.h>

#define LEVEL_WORD "level" /* as if= has it */
#define LEVELS 15
#define LEVEL_NONE LEVELS /* a marker without a level */

static const char *const level_names[LEVELS] = {
	"emerg",	"alert",      "crit",		"err",		 "warning",
	"notice",	"info",	      "debug_system",	"debug_program", "debug_process",
	"debug_module", "debug_unit", "debug_function", "debug_line",	 "debug",
};

/* The level that a word of that length names; LEVEL_NONE if no level is called so. */
static inline unsigned int level_read(const char *name, size_t bytes)
{
	for (unsigned int i = 0; i < LEVELS; i++)
		if (strlen(level_names[i]) == bytes && !memcmp(level_names[i], name, bytes))
			return i;
	return LEVEL_NONE;
}

/* The word behind the line's number in a site's text (abi/site.h), or NULL. */
static inline const char *level_word(const char *text, size_t *bytes)
{
	const char *end, *space;

	for (int i = 0; i < 4; i++) {
		text = strchr(text, '\n');
		if (!text++)
			return NULL;
	}
	end = strchr(text, '\n');
	space = end ? memchr(text, ' ', (size_t)(end - text)) : NULL;
	*bytes = space ? (size_t)(end - space - 1) : 0;
	return space ? space + 1 : NULL;
}

static inline unsigned int level_of_text(const char *text)
{
	size_t bytes;
	const char *word = level_word(text, &bytes);

	return word ? level_read(word, bytes) : LEVEL_NONE;
}

#endif
