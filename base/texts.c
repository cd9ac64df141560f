/* SPDX-License-Identifier: MIT */
#include "base/texts.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

const char *texts_keep(struct texts *texts, const char *text, size_t bytes)
{
	uint32_t hash = slots_hash_bytes(text, bytes), number;
	char *copy;

	if (slots_fit(&texts->slots))
		return NULL;
	for (uint64_t at = hash; slots_next(&texts->slots, hash, &at, &number);)
		if (!strncmp(texts->all[number], text, bytes) && !texts->all[number][bytes])
			return texts->all[number];
	if ((texts->most && texts->count == texts->most) ||
	    array_grow(&texts->all, &texts->room, texts->count + 1, sizeof(*texts->all)))
		return NULL;
	copy = malloc(bytes + 1);
	if (!copy)
		return NULL;
	memcpy(copy, text, bytes);
	copy[bytes] = '\0';
	slots_add(&texts->slots, hash, (uint32_t)texts->count);
	texts->all[texts->count++] = copy;
	return copy;
}

void texts_release(struct texts *texts)
{
	for (size_t i = 0; i < texts->count; i++)
		free(texts->all[i]);
	free(texts->all);
	free(texts->slots.all);
	*texts = (struct texts){ 0 };
}
