/* SPDX-License-Identifier: MIT */
#include "read/pass/frequent.h"

#include <stdlib.h>

#define FIRST_ROOM 2 /* most threads have few */

struct frequent_entry *frequent_find(const struct frequent *frequent, uint64_t value, uint32_t of)
{
	for (size_t i = 0; i < frequent->count; i++)
		if (frequent->all[i].value == value && frequent->all[i].of == of)
			return &frequent->all[i];
	return NULL;
}

/* Where a new key is put: behind the others, or in the place of the rarest. NULL: no memory. */
static struct frequent_entry *place_make(struct frequent *frequent)
{
	size_t rarest = 0, room = frequent->room ? frequent->room * 2 : FIRST_ROOM;
	struct frequent_entry *larger;

	if (frequent->count < FREQUENT_MAX) {
		if (frequent->count == frequent->room) {
			larger = reallocarray(frequent->all, room, sizeof(*larger));
			if (!larger)
				return NULL;
			frequent->all = larger;
			frequent->room = room;
		}
		frequent->all[frequent->count] = (struct frequent_entry){ 0 };
		return &frequent->all[frequent->count++];
	}
	for (size_t i = 1; i < frequent->count; i++)
		if (frequent->all[i].count < frequent->all[rarest].count)
			rarest = i;
	return &frequent->all[rarest];
}

struct frequent_entry *frequent_add(struct frequent *frequent, uint64_t value, uint32_t of,
				    uint64_t weight)
{
	struct frequent_entry *entry = frequent_find(frequent, value, of);

	if (!entry) {
		entry = place_make(frequent);
		if (!entry)
			return NULL;
		*entry = (struct frequent_entry){
			.value = value, .of = of, .count = entry->count, .over = entry->count
		};
	}
	entry->count += weight;
	frequent->total += weight;
	return entry;
}

static int by_least(const void *left, const void *right)
{
	const struct frequent_entry *a = left, *b = right;
	uint64_t one = frequent_least(a), other = frequent_least(b);

	if (one != other)
		return one > other ? -1 : 1;
	if (a->value != b->value)
		return a->value < b->value ? -1 : 1;
	return (a->of > b->of) - (a->of < b->of);
}

void frequent_sort(struct frequent *frequent)
{
	if (frequent->count)
		qsort(frequent->all, frequent->count, sizeof(*frequent->all), by_least);
}

void frequent_release(struct frequent *frequent)
{
	free(frequent->all);
	*frequent = (struct frequent){ 0 };
}
