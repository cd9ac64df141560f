/* SPDX-License-Identifier: MIT */
/*
 * Sites of a batch, in order of address. Under the agent's lock.
 */
#ifndef INSIDE_DETOUR_SITE_LIST_H
#define INSIDE_DETOUR_SITE_LIST_H

#include "inside/detour/janitor.h"

#include <stddef.h>

struct list {
	struct janitor_site *sites;
	size_t count, bytes;
};

/*
 * One for each detour that is wanted, in the order in which they came. 0 or -ENOMEM. Free it if it
 * has any.
 */
int list_make(struct list *list, int (*wanted)(const struct detour *));
void list_free(struct list *list);

void list_sort(struct list *list);

#endif
