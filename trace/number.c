/* SPDX-License-Identifier: MIT */
/*
 * A tree and not a hash table: a target or a damaged trace chooses the names, and names that
 * collide would make each look-up slow.
 */
#include "trace/number.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

struct number {
	const char *name; /* of a look-up; of a node it points behind the node */
	uint32_t number;
};

static int number_order(const void *a, const void *b)
{
	const struct number *left = a, *right = b;

	return strcmp(left->name, right->name);
}

uint32_t number_of_name(struct number_list *list, const char *name)
{
	const struct number wanted = { .name = name };
	struct number **found = tfind(&wanted, &list->tree, number_order), *added;
	size_t bytes = strlen(name) + 1;

	if (found)
		return (*found)->number;
	if (list->count >= NUMBER_COUNT_MAX || bytes > NUMBER_BYTES_MAX - list->bytes)
		return 0;
	added = malloc(sizeof(*added) + bytes);
	if (!added)
		return 0;
	added->name = memcpy(added + 1, name, bytes);
	added->number = list->count + 1;
	if (!tsearch(added, &list->tree, number_order)) {
		free(added);
		return 0;
	}
	list->count++;
	list->bytes += bytes;
	return added->number;
}

void number_list_release(struct number_list *list)
{
	tdestroy(list->tree, free);
	*list = (struct number_list){ 0 };
}
