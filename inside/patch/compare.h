/* SPDX-License-Identifier: MIT */
/*
 * Compare armed bytes with memory, many by few system calls. Code may be unmapped at any moment, so
 * only the kernel reads it. Under the agent's lock.
 */
#ifndef INSIDE_PATCH_COMPARE_H
#define INSIDE_PATCH_COMPARE_H

#include "inside/patch/text.h"

#include <stddef.h>
#include <stdint.h>

#define COMPARE_BYTES_MAX 23

struct compare_item {
	uintptr_t address;
	void *owner;
	uint8_t bytes; /* 1 to COMPARE_BYTES_MAX */
	uint8_t expected[COMPARE_BYTES_MAX];
};

/* Zeroed is empty. */
struct compare_list {
	struct compare_item *items;
	size_t count, room;
};

/* 0 or -ENOMEM. The expected bytes are the caller's to fill in: they are *item's. */
int compare_add(struct compare_list *list, struct compare_item **item);

/* Call for each item with its bytes, and whether they are as expected. NULL: it is not there. */
void compare_run(const struct text *text, const struct compare_list *list,
		 void (*each)(void *owner, const uint8_t *found, int is_same, void *data),
		 void *data);

#endif
