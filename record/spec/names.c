/* SPDX-License-Identifier: MIT */
#include "record/spec/names.h"

#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(NAMES_MAX <= UINT16_MAX && NAMES_MAX * 2 <= NAMES_SLOTS, "a free slot is found");

/* The slot of the name, or the free one for it. */
static uint16_t *find(const struct name_list *list, const char *name)
{
	uint32_t at = 2166136261u; /* FNV-1a */

	for (const char *c = name; *c; c++)
		at = (at ^ (unsigned char)*c) * 16777619u;
	for (;; at++) {
		uint16_t *slot = &list->slots[at % NAMES_SLOTS];

		if (!*slot || !strcmp(list->all[*slot - 1], name))
			return slot;
	}
}

int name_list_add(struct name_list *list, const char *name)
{
	uint16_t *slot;

	if (list->count == NAMES_MAX)
		return 0;
	if (!list->slots)
		list->slots = calloc(NAMES_SLOTS, sizeof(*list->slots));
	if (!list->slots)
		return -ENOMEM;
	slot = find(list, name);
	if (*slot)
		return 0;
	if (array_grow(&list->all, &list->room, list->count + 1, sizeof(*list->all)))
		return -ENOMEM;
	list->all[list->count] = strdup(name);
	if (!list->all[list->count])
		return -ENOMEM;
	*slot = (uint16_t)++list->count;
	return 0;
}

void name_list_release(struct name_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->all[i]);
	free(list->all);
	free(list->slots);
	*list = (struct name_list){ 0 };
}
