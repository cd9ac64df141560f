/* SPDX-License-Identifier: MIT */
/*
 * Arrays that grow as they are filled: a pointer from malloc() or NULL, and how many elements have
 * room there.
 */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_FIRST 16

/*
 * Makes room for `count` elements of `bytes` each in the array that the pointer at `array` (a T **)
 * points to: it may move, what is in it is kept, and what is new is not set. Each time it has to
 * grow it becomes twice as large, so filling it costs no more than a few copies of each element.
 *
 * Returns 0, or -ENOMEM with all as it was. The caller sees to it that no other thread uses the
 * array.
 */
static inline int array_grow(void *array, size_t *room, size_t count, size_t bytes)
{
	size_t larger = *room ? *room * 2 : ARRAY_FIRST;
	void *all, *moved;

	if (count <= *room)
		return 0;
	if (larger < count)
		larger = count;
	/* copied, since a T * may not be read or written as a void * */
	memcpy(&all, array, sizeof(all));
	moved = reallocarray(all, larger, bytes);
	if (!moved)
		return -ENOMEM;
	memcpy(array, &moved, sizeof(moved));
	*room = larger;
	return 0;
}

/* The same, and what is new is all zeroes. */
static inline int array_grow_zeroed(void *array, size_t *room, size_t count, size_t bytes)
{
	size_t before = *room;
	char *all;
	int err = array_grow(array, room, count, bytes);

	if (err || *room == before)
		return err;
	memcpy(&all, array, sizeof(all));
	memset(all + before * bytes, 0, (*room - before) * bytes);
	return 0;
}

#endif
