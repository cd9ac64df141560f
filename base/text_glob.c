/* SPDX-License-Identifier: MIT */
#include "base/text_glob.h"

#include <stddef.h>

/* Past the set that begins at `glob`; NULL: it has no end, and the bracket is a character. */
static const char *set_end(const char *glob)
{
	const char *at = glob + 1 + (glob[1] == '!' || glob[1] == '^');

	/* a bracket that comes first is one of the set */
	for (at += *at != 0; *at && *at != ']'; at++)
		;
	return *at ? at + 1 : NULL;
}

static int is_in_set(const char *glob, const char *end, int c)
{
	int is_inverse = glob[1] == '!' || glob[1] == '^', is_found = 0;

	for (const char *at = glob + 1 + is_inverse; at < end - 1; at++) {
		int first = (unsigned char)*at, last = first;

		if (at + 2 < end - 1 && at[1] == '-') {
			last = (unsigned char)at[2];
			at += 2;
		}
		is_found |= first <= c && c <= last;
	}
	return is_found != is_inverse;
}

/* Past the element of the glob that takes this character; NULL: it does not take it. */
static const char *element_past(const char *glob, int c)
{
	const char *end;

	switch (*glob) {
	case '?':
		return glob + 1;
	case '[':
		end = set_end(glob);
		if (end)
			return is_in_set(glob, end, c) ? end : NULL;
		break;
	case '\\':
		glob += glob[1] != 0;
		break;
	}
	return (unsigned char)*glob == c ? glob + 1 : NULL;
}

int text_glob_match(const char *glob, text_glob_byte *byte_at, void *text)
{
	/* the last star, and what comes after what it took */
	const char *star = NULL;
	uint32_t from = 0, at = 0;

	for (;;) {
		const char *past = NULL;
		int c;

		if (*glob == '*') {
			star = ++glob;
			from = at;
			if (!*glob)
				return byte_at(text, at) < 0 ? -1 : 1;
			continue;
		}
		c = byte_at(text, at);
		if (c < 0)
			return -1;
		if (!c && !*glob)
			return 1;
		if (c && *glob)
			past = element_past(glob, c);
		if (past) {
			glob = past;
			at++;
			continue;
		}
		/* let the last star take one more */
		if (!star || !c)
			return 0;
		glob = star;
		at = ++from;
	}
}
