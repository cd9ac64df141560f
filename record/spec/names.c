/* SPDX-License-Identifier: MIT */
#include "record/spec/names.h"

#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int name_list_add(struct name_list *list, const char *name)
{
	uint32_t hash = slots_hash_text(name), number;

	if (list->count == NAMES_MAX)
		return 0;
	if (slots_fit(&list->slots))
		return -ENOMEM;
	for (uint64_t at = hash; slots_next(&list->slots, hash, &at, &number);)
		if (!strcmp(list->all[number], name))
			return 0;
	if (array_grow(&list->all, &list->room, list->count + 1, sizeof(*list->all)))
		return -ENOMEM;
	list->all[list->count] = strdup(name);
	if (!list->all[list->count])
		return -ENOMEM;
	slots_add(&list->slots, hash, (uint32_t)list->count++);
	return 0;
}

void name_list_release(struct name_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->all[i]);
	free(list->all);
	free(list->slots.all);
	*list = (struct name_list){ 0 };
}
