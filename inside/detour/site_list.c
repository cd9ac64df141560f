/* SPDX-License-Identifier: MIT */
#include "inside/detour/site_list.h"

#include "inside/runtime/heap.h"

#include <errno.h>

int list_make(struct list *list, int (*wanted)(const struct detour *))
{
	*list = (struct list){ 0 };
	for (const struct detour *d = detour_first(); d; d = d->next)
		list->count += wanted(d) != 0;
	if (!list->count)
		return 0;
	list->bytes = list->count * sizeof *list->sites;
	list->sites = heap_alloc(list->bytes);
	if (!list->sites)
		return -ENOMEM;
	list->count = 0;
	for (struct detour *d = detour_first(); d; d = d->next) {
		if (wanted(d))
			list->sites[list->count++].detour = d;
	}
	return 0;
}

void list_free(struct list *list)
{
	heap_free(list->sites, list->bytes);
}

static void swap(struct janitor_site *a, struct janitor_site *b)
{
	struct janitor_site c = *a;

	*a = *b;
	*b = c;
}

/* Heapsort: no memory, no bad case. */
static void sift(struct janitor_site *sites, size_t at, size_t count)
{
	for (;;) {
		size_t child = 2 * at + 1;

		if (child >= count)
			return;
		if (child + 1 < count &&
		    sites[child + 1].detour->record->address > sites[child].detour->record->address)
			child++;
		if (sites[at].detour->record->address >= sites[child].detour->record->address)
			return;
		swap(&sites[at], &sites[child]);
		at = child;
	}
}

void list_sort(struct list *list)
{
	for (size_t i = list->count / 2; i-- > 0;)
		sift(list->sites, i, list->count);
	for (size_t end = list->count; end-- > 1;) {
		swap(&list->sites[0], &list->sites[end]);
		sift(list->sites, 0, end);
	}
}
