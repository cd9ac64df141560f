/* SPDX-License-Identifier: MIT */
/* Texts, each kept once. One thread at a time uses them. */
#ifndef BASE_TEXTS_H
#define BASE_TEXTS_H

#include <stddef.h>

/* Zeroed: empty. */
struct texts {
	struct texts_one **chains; /* by hash */
	size_t chain_count;
	size_t count, most; /* most: how many it may have; 0: any number */
};

/*
 * The one copy of a text of so many bytes, valid until the release. NULL: no memory, or too
 * many.
 */
const char *texts_keep(struct texts *texts, const char *text, size_t bytes);

void texts_release(struct texts *texts);

#endif
