/* SPDX-License-Identifier: MIT */
#include "base/similar_names.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define WORD_MAX 255

static unsigned int least(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

static int same(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Optimal string alignment over three rows of the usual table: row i is for a[0..i). */
unsigned int similar_distance(const char *a, const char *b)
{
	unsigned int rows[3][WORD_MAX + 1];
	unsigned int *before = rows[0], *last = rows[1], *row = rows[2];
	size_t a_bytes = strnlen(a, WORD_MAX), b_bytes = strnlen(b, WORD_MAX);

	for (size_t j = 0; j <= b_bytes; j++)
		last[j] = (unsigned int)j;
	for (size_t i = 1; i <= a_bytes; i++) {
		unsigned int *spare = before;

		row[0] = (unsigned int)i;
		for (size_t j = 1; j <= b_bytes; j++) {
			row[j] = least(least(last[j], row[j - 1]) + 1,
				       last[j - 1] + !same(a[i - 1], b[j - 1]));
			if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
				row[j] = least(row[j], before[j - 2] + 1);
		}
		before = last;
		last = row;
		row = spare;
	}
	return last[b_bytes];
}

int similar_is_scoped(const char *word, const char *name)
{
	size_t word_bytes = strlen(word), name_bytes = strlen(name);

	return word_bytes && name_bytes >= word_bytes + 3 &&
	       !strcmp(name + name_bytes - word_bytes, word) &&
	       !strncmp(name + name_bytes - word_bytes - 2, "::", 2);
}

/* As many last parts of a name as the word has: two of shop::Order::add, "Order::add", for two. */
static const char *last_parts(const char *word, const char *name)
{
	const char *at = name + strlen(name);
	int parts = 1;

	for (const char *c = strstr(word, "::"); c; c = strstr(c + 2, "::"))
		parts++;
	while (at > name && parts) {
		at--;
		parts -= at - name >= 2 && at[-1] == ':' && at[-2] == ':';
	}
	return at;
}

/* How far `name` is from `word`; UINT_MAX when it is not near at all. */
static unsigned int rank(const char *word, const char *name)
{
	size_t word_bytes = strlen(word), name_bytes = strlen(name);
	size_t prefix = word_bytes < name_bytes ? word_bytes : name_bytes;
	unsigned int distance = similar_distance(word, name);

	if (similar_is_scoped(word, name))
		return 0;
	if (distance <= (word_bytes + 2) / 3)
		return distance;
	/* Misspelt, and without its scope. */
	distance = similar_distance(word, last_parts(word, name));
	if (distance <= (word_bytes + 2) / 3)
		return distance + 1;
	/* After all misspelt names: a word cut short, or with something behind it. */
	if (prefix >= 2 && strncasecmp(word, name, prefix) == 0)
		return WORD_MAX + distance;
	return UINT_MAX;
}

static int holds(const char *const *list, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(list[i], name) == 0)
			return 1;
	return 0;
}

int similar_list(const char *word, const char *const *all, size_t count, const char **out,
		 size_t max)
{
	size_t found = 0;

	for (size_t i = 0; i < count; i++) {
		unsigned int wrong = rank(word, all[i]);
		size_t at = found;

		if (wrong == UINT_MAX || holds(out, found, all[i]))
			continue;
		while (at > 0 && rank(word, out[at - 1]) > wrong)
			at--;
		if (at == max)
			continue;
		if (found < max)
			found++;
		memmove(&out[at + 1], &out[at], (found - at - 1) * sizeof(*out));
		out[at] = all[i];
	}
	return (int)found;
}

char *similar_words(const char *word, const char *const *all, size_t count, char *text, size_t room)
{
	const char *near[3];
	int found = similar_list(word, all, count, near, sizeof(near) / sizeof(near[0]));
	size_t used = 0;

	text[0] = '\0';
	for (int i = 0; i < found && used < room; i++)
		used += (size_t)snprintf(text + used, room - used, "%s%s%s",
					 !i		  ? "; did you mean "
					 : i == found - 1 ? " or "
							  : ", ",
					 near[i], i == found - 1 ? "?" : "");
	return text;
}
