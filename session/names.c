/* SPDX-License-Identifier: MIT */
#include "session/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 4096

int name_list_add(struct name_list *list, const char *name)
{
	if (list->count == NAMES_MAX)
		return 0;
	for (size_t i = 0; i < list->count; i++)
		if (!strcmp(list->all[i], name))
			return 0;
	if (list->count == list->room) {
		size_t room = list->room ? list->room * 2 : 64;
		char **more = realloc(list->all, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		list->all = more;
		list->room = room;
	}
	list->all[list->count] = strdup(name);
	if (!list->all[list->count])
		return -ENOMEM;
	list->count++;
	return 0;
}

void name_list_release(struct name_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->all[i]);
	free(list->all);
	*list = (struct name_list){ 0 };
}
