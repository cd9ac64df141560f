/* SPDX-License-Identifier: MIT */
/*
 * An index of an array's elements by the hash of their keys: open addressing, half full at most. It
 * has each element's number and hash, and the caller compares the keys:
 *
 *	if (slots_fit(&slots))
 *		return -ENOMEM;
 *	for (uint64_t at = hash; slots_next(&slots, hash, &at, &number);)
 *		if (is_same(&all[number], key))
 *			return number;
 *	slots_add(&slots, hash, number = count++);
 *
 * Zeroed: empty. Freed with free(slots.all). One thread at a time.
 */
#ifndef BASE_SLOTS_H
#define BASE_SLOTS_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_FIRST 1024u

struct slots {
	uint64_t *all; /* the hash, and in the lower half the number + 1; 0: free */
	size_t room, count;
};

/* A hash of a number, or of what was put together to one. */
static inline uint32_t slots_hash(uint64_t key)
{
	return (uint32_t)(key * 0x9e3779b97f4a7c15ull >> 32);
}

/* A hash of a text: FNV-1a. */
static inline uint32_t slots_hash_bytes(const char *text, size_t bytes)
{
	uint32_t hash = 2166136261u;

	while (bytes--)
		hash = (hash ^ (unsigned char)*text++) * 16777619u;
	return hash;
}

static inline uint32_t slots_hash_text(const char *text)
{
	return slots_hash_bytes(text, strlen(text));
}

/* Add a number below UINT32_MAX. slots_fit() has made room for it. */
static inline void slots_add(struct slots *slots, uint32_t hash, uint32_t number)
{
	size_t at = hash;

	while (slots->all[at & (slots->room - 1)])
		at++;
	slots->all[at & (slots->room - 1)] = (uint64_t)hash << 32 | (number + 1);
	slots->count++;
}

/* Make room for one more. 0, or -ENOMEM with all as it was. */
static inline int slots_fit(struct slots *slots)
{
	struct slots larger = { .room = slots->room ? slots->room * 2 : SLOTS_FIRST };

	if (slots->count * 2 < slots->room)
		return 0;
	larger.all = calloc(larger.room, sizeof(*larger.all));
	if (!larger.all)
		return -ENOMEM;
	for (size_t i = 0; i < slots->room; i++)
		if (slots->all[i])
			slots_add(&larger, (uint32_t)(slots->all[i] >> 32),
				  (uint32_t)slots->all[i] - 1);
	free(slots->all);
	*slots = larger;
	return 0;
}

/* Put a number in the place of `former`, whose hash this is. */
static inline void slots_replace(struct slots *slots, uint32_t hash, uint32_t former,
				 uint32_t number)
{
	size_t at = hash;

	while (slots->all[at & (slots->room - 1)] != ((uint64_t)hash << 32 | (former + 1)))
		at++;
	slots->all[at & (slots->room - 1)] = (uint64_t)hash << 32 | (number + 1);
}

/* The next element with that hash. 1, or 0: no more. *at begins as the hash. There is room. */
static inline int slots_next(const struct slots *slots, uint32_t hash, uint64_t *at,
			     uint32_t *number)
{
	uint64_t slot;

	while ((slot = slots->all[(*at)++ & (slots->room - 1)])) {
		*number = (uint32_t)slot - 1;
		if (slot >> 32 == hash)
			return 1;
	}
	return 0;
}

#endif
