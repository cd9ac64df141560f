/* SPDX-License-Identifier: MIT */
#include "session/watch/watches.h"

#include <stdlib.h>

void watched_list_release(struct watched_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		watch_type_release(&list->all[i].type);
		free(list->all[i].text);
	}
	free(list->all);
	*list = (struct watched_list){ 0 };
}

const struct watched_spec *watches_of(const struct watched_list *list, size_t spec)
{
	return spec < list->count && list->all[spec].processes ? &list->all[spec] : NULL;
}
