/* SPDX-License-Identifier: MIT */
/* The names of events, each with a small number that all schemas of one session or trace share. */
#ifndef TRACE_NUMBER_H
#define TRACE_NUMBER_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed: empty. */
struct number_list {
	void *tree;
	uint32_t count;
	size_t bytes;
};

#define NUMBER_COUNT_MAX (1u << 20)
#define NUMBER_BYTES_MAX (64u << 20) /* of names */

/*
 * The number of a name: 1 and up, in the order of first use. 0: no memory, or the list is full. A
 * target chooses its names, so the list has limits.
 */
uint32_t number_of_name(struct number_list *list, const char *name);

void number_list_release(struct number_list *list);

#endif
