/* SPDX-License-Identifier: MIT */
#include "base/texts.h"

#include <stdlib.h>
#include <string.h>

#define CHAINS 1024u

struct texts_one {
	struct texts_one *next;
	char text[];
};

const char *texts_keep(struct texts *texts, const char *text, size_t bytes)
{
	struct texts_one **chain, *one;
	size_t hash = 5381;

	if (!texts->chains)
		texts->chains = calloc(CHAINS, sizeof(struct texts_one *));
	if (!texts->chains)
		return NULL;
	for (size_t i = 0; i < bytes; i++)
		hash = hash * 33 + (unsigned char)text[i];
	chain = &texts->chains[hash % CHAINS];
	for (one = *chain; one; one = one->next)
		if (!strncmp(one->text, text, bytes) && !one->text[bytes])
			return one->text;
	if (texts->most && texts->count == texts->most)
		return NULL;
	one = malloc(sizeof(*one) + bytes + 1);
	if (!one)
		return NULL;
	memcpy(one->text, text, bytes);
	one->text[bytes] = '\0';
	one->next = *chain;
	*chain = one;
	texts->count++;
	return one->text;
}

void texts_release(struct texts *texts)
{
	for (size_t i = 0; texts->chains && i < CHAINS; i++) {
		for (struct texts_one *one = texts->chains[i], *next; one; one = next) {
			next = one->next;
			free(one);
		}
	}
	free(texts->chains);
	*texts = (struct texts){ 0 };
}
