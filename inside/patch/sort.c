/* SPDX-License-Identifier: MIT */
/* A merge sort that begins with the runs that are there. */
#include "inside/patch/sort.h"

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

void *sort_by_address(void *items, void *spare, size_t count, size_t item_bytes)
{
	while (count && run_end(items, 0, count, item_bytes) < count) {
		void *swap = items;

		for (size_t start = 0, end; start < count; start = end) {
			size_t middle = run_end(items, start, count, item_bytes);

			end = middle < count ? run_end(items, middle, count, item_bytes) : count;
			merge(items, spare, start, middle, end, item_bytes);
		}
		items = spare;
		spare = swap;
	}
	return items;
}
