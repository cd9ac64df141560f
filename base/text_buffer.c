/* SPDX-License-Identifier: MIT */
#include "base/text_buffer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for `count` bytes more and a NUL. */
static int reserve(struct text *text, size_t count)
{
	size_t want = text->room ? text->room : 1024;
	char *larger;

	if (text->error)
		return -1;
	while (want - text->bytes <= count)
		want *= 2;
	if (want == text->room)
		return 0;
	larger = realloc(text->at, want);
	if (!larger) {
		text->error = -ENOMEM;
		return -1;
	}
	text->at = larger;
	text->room = want;
	return 0;
}

void text_add(struct text *text, const char *bytes, size_t count)
{
	if (reserve(text, count))
		return;
	if (count)
		memcpy(text->at + text->bytes, bytes, count);
	text->bytes += count;
	text->at[text->bytes] = '\0';
}

void text_format(struct text *text, const char *format, ...)
{
	va_list list;
	int count;

	va_start(list, format);
	count = vsnprintf(NULL, 0, format, list);
	va_end(list);
	if (count < 0 || reserve(text, (size_t)count))
		return;
	va_start(list, format);
	vsnprintf(text->at + text->bytes, (size_t)count + 1, format, list);
	va_end(list);
	text->bytes += (size_t)count;
}

void text_quoted(struct text *text, const char *string)
{
	text_add(text, "\"", 1);
	for (const char *c = string; *c; c++) {
		if (*c == '"' || *c == '\\')
			text_format(text, "\\%c", *c);
		else if (*c >= ' ' && *c <= '~')
			text_add(text, c, 1);
		else /* three digits always, so that a digit that follows is not taken in */
			text_format(text, "\\%03o", (unsigned char)*c);
	}
	text_add(text, "\"", 1);
}

void text_hex(struct text *text, const unsigned char *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		text_format(text, "%02x", bytes[i]);
}

void text_release(struct text *text)
{
	free(text->at);
	*text = (struct text){ 0 };
}
