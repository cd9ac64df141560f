/* SPDX-License-Identifier: MIT */
#include "base/texts.h"

#include <stdlib.h>
#include <string.h>

#define CHAINS_MIN 1024u

struct texts_one {
	struct texts_one *next;
	size_t hash;
	char text[];
};

static size_t hash_of(const char *text, size_t bytes)
{
	size_t hash = 5381;

	for (size_t i = 0; i < bytes; i++)
		hash = hash * 33 + (unsigned char)text[i];
	return hash;
}

/* As many chains as texts. Without memory the chains stay, and get longer. */
static void grow(struct texts *texts)
{
	size_t count = texts->chain_count ? 2 * texts->chain_count : CHAINS_MIN;
	struct texts_one **chains = calloc(count, sizeof(struct texts_one *));

	if (!chains)
		return;
	for (size_t i = 0; i < texts->chain_count; i++) {
		for (struct texts_one *one = texts->chains[i], *next; one; one = next) {
			next = one->next;
			one->next = chains[one->hash % count];
			chains[one->hash % count] = one;
		}
	}
	free(texts->chains);
	texts->chains = chains;
	texts->chain_count = count;
}

const char *texts_keep(struct texts *texts, const char *text, size_t bytes)
{
	size_t hash = hash_of(text, bytes);
	struct texts_one **chain, *one;

	if (texts->count >= texts->chain_count)
		grow(texts);
	if (!texts->chains)
		return NULL;
	chain = &texts->chains[hash % texts->chain_count];
	for (one = *chain; one; one = one->next)
		if (one->hash == hash && !strncmp(one->text, text, bytes) && !one->text[bytes])
			return one->text;
	if (texts->most && texts->count == texts->most)
		return NULL;
	one = malloc(sizeof(*one) + bytes + 1);
	if (!one)
		return NULL;
	one->hash = hash;
	memcpy(one->text, text, bytes);
	one->text[bytes] = '\0';
	one->next = *chain;
	*chain = one;
	texts->count++;
	return one->text;
}

void texts_release(struct texts *texts)
{
	for (size_t i = 0; i < texts->chain_count; i++) {
		for (struct texts_one *one = texts->chains[i], *next; one; one = next) {
			next = one->next;
			free(one);
		}
	}
	free(texts->chains);
	*texts = (struct texts){ 0 };
}
