/* SPDX-License-Identifier: MIT */
/*
 * Text that grows. Running out of memory is remembered, not returned: check `error` at the end.
 */
#ifndef BASE_TEXT_BUFFER_H
#define BASE_TEXT_BUFFER_H

#include <stddef.h>

struct text {
	char *at;
	size_t bytes, room;
	int error; /* 0 or -ENOMEM */
};

void text_add(struct text *text, const char *bytes, size_t count);
void text_format(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As a TSDL string with its quotes: whatever is special or not ASCII is escaped. */
void text_quoted(struct text *text, const char *string);

/* Two digits a byte. */
void text_hex(struct text *text, const unsigned char *bytes, size_t count);

void text_release(struct text *text);

#endif
