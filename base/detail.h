/* SPDX-License-Identifier: MIT */
#ifndef BASE_DETAIL_H
#define BASE_DETAIL_H

#include <stddef.h>

/* A place for words about an error; whole where it fits. */
struct detail {
	char *text;
	size_t bytes;
};

/* Write words; returns `error`, to be returned on. */
int detail_set(struct detail detail, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
