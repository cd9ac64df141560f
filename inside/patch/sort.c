/* SPDX-License-Identifier: MIT */
/* A merge sort that begins with the runs that are there. */
#include "inside/patch/sort.h"

#include "inside/runtime/heap.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

static uintptr_t key(const char *items, size_t i, size_t bytes)
{
	uintptr_t address;

	memcpy(&address, items + i * bytes, sizeof address);
	return address;
}

static size_t run_end(const char *items, size_t start, size_t count, size_t bytes)
{
	size_t end = start + 1;

	while (end < count && key(items, end - 1, bytes) <= key(items, end, bytes))
		end++;
	return end < count ? end : count;
}

static void merge(const char *from, char *to, size_t start, size_t middle, size_t end, size_t bytes)
{
	size_t left = start, right = middle;

	for (size_t i = start; i < end; i++) {
		int take_left = left < middle &&
				(right >= end || key(from, left, bytes) <= key(from, right, bytes));

		memcpy(to + i * bytes, from + (take_left ? left++ : right++) * bytes, bytes);
	}
}

int sort_by_address(void *items, size_t count, size_t item_bytes)
{
	char *from = items, *to, *spare;

	if (!count || run_end(from, 0, count, item_bytes) == count)
		return 0;
	to = spare = heap_alloc(count * item_bytes);
	if (!spare)
		return -ENOMEM;
	while (run_end(from, 0, count, item_bytes) < count) {
		char *swap = from;

		for (size_t start = 0, end; start < count; start = end) {
			size_t middle = run_end(from, start, count, item_bytes);

			end = middle < count ? run_end(from, middle, count, item_bytes) : count;
			merge(from, to, start, middle, end, item_bytes);
		}
		from = to;
		to = swap;
	}
	if (from == spare)
		memcpy(items, spare, count * item_bytes);
	heap_free(spare, count * item_bytes);
	return 0;
}
