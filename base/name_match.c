/* SPDX-License-Identifier: MIT */
#include "base/name_match.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define PLAIN_BYTES 1024 /* of a pattern; a longer one has its brackets as classes alone */

int name_match(const char *pattern, const char *name)
{
	char plain[PLAIN_BYTES];
	size_t bytes = 0;

	if (!strcmp(pattern, name) || !fnmatch(pattern, name, 0))
		return 1;
	if (!strchr(name, '[') || !strchr(pattern, '['))
		return 0;
	for (; *pattern && bytes + 3 < sizeof(plain); pattern++) {
		if (*pattern == '\\' && pattern[1])
			plain[bytes++] = *pattern++;
		else if (*pattern == '[')
			plain[bytes++] = '\\';
		plain[bytes++] = *pattern;
	}
	plain[bytes] = 0;
	return !*pattern && !fnmatch(plain, name, 0);
}

int name_match_marker(const char *pattern, const char *name)
{
	const char *colon = strchr(name, ':');

	return name_match(pattern, name) || (colon && name_match(pattern, colon + 1));
}

int name_match_event(const char *pattern, const char *name)
{
	return !fnmatch(pattern, name, FNM_CASEFOLD);
}

const char *name_last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

int name_match_module(const char *pattern, const char *path)
{
	const char *name = name_last_part(path), *end;
	size_t bytes = strlen(pattern);
	char text[NAME_MAX + 1];

	if (name_match(pattern, path))
		return 1;
	if (strchr(pattern, '/'))
		return 0;
	/* programs name libz.so.1, which is libz.so.1.2.13 on the disk */
	if (name_match(pattern, name) ||
	    (strstr(pattern, ".so") && !strncmp(pattern, name, bytes) && name[bytes] == '.'))
		return 1;
	end = strstr(name, ".so");
	if (!end || end == name || (end[3] && end[3] != '.'))
		return 0;
	snprintf(text, sizeof(text), "%.*s", (int)(end - name), name);
	return name_match(pattern, text);
}
