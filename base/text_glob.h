/* SPDX-License-Identifier: MIT */
/*
 * Globs over text that comes byte by byte, for it may be in memory that has to be read with care.
 * `*` is any run of characters, `?` any one, [a-z] and [!a-z] one of a set; a backslash takes the
 * next character literally. Hit path.
 */
#ifndef BASE_TEXT_GLOB_H
#define BASE_TEXT_GLOB_H

#include <stdint.h>

/* The byte at an offset, not far before any earlier one; 0: the end; -1: it can't be read. */
typedef int text_glob_byte(void *text, uint32_t at);

/* 1: the glob matches all of the text; 0; -1: a byte that it needs can't be read. */
int text_glob_match(const char *glob, text_glob_byte *byte_at, void *text);

#endif
