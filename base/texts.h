/* SPDX-License-Identifier: MIT */
/* Texts, each kept once. One thread at a time uses them. */
#ifndef BASE_TEXTS_H
#define BASE_TEXTS_H

#include "base/slots.h"

#include <stddef.h>

/* Zeroed: empty. */
struct texts {
	struct slots slots;
	char **all;
	size_t count, room;
	size_t most; /* how many there may be; 0: any number */
};

/*
 * The one copy of a text of so many bytes, valid until the release. NULL: no memory, or too
 * many.
 */
const char *texts_keep(struct texts *texts, const char *text, size_t bytes);

void texts_release(struct texts *texts);

#endif
