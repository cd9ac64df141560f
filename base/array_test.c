/* SPDX-License-Identifier: MIT */
#include "base/array.h"

#include <criterion/criterion.h>
#include <stdint.h>

Test(array, what_is_in_it_is_kept_as_it_grows)
{
	uint32_t *numbers = NULL;
	size_t room = 0;

	for (uint32_t i = 0; i < 1000; i++) {
		cr_assert_eq(array_grow(&numbers, &room, i + 1, sizeof(*numbers)), 0);
		cr_assert_gt(room, i);
		numbers[i] = i;
	}
	for (uint32_t i = 0; i < 1000; i++)
		cr_assert_eq(numbers[i], i);
	free(numbers);
}

Test(array, it_is_not_moved_while_there_is_room)
{
	char *bytes = NULL, *first;
	size_t room = 0, had;

	cr_assert_eq(array_grow(&bytes, &room, 1, 1), 0);
	first = bytes;
	had = room;
	cr_assert_eq(array_grow(&bytes, &room, had, 1), 0);
	cr_assert_eq(bytes, first);
	cr_assert_eq(room, had);
	free(bytes);
}

Test(array, it_doubles_or_holds_all_that_is_asked_for)
{
	char *bytes = NULL;
	size_t room = 0, had;

	cr_assert_eq(array_grow(&bytes, &room, 5000, 1), 0);
	cr_assert_eq(room, 5000);
	had = room;
	cr_assert_eq(array_grow(&bytes, &room, had + 1, 1), 0);
	cr_assert_eq(room, 2 * had);
	memset(bytes, 1, room);
	free(bytes);
}

Test(array, without_memory_all_is_as_it_was)
{
	volatile size_t too_many = SIZE_MAX / 8; /* the compiler knows that nothing is as large */
	char *bytes = NULL, *first;
	size_t room = 0, had;

	cr_assert_eq(array_grow(&bytes, &room, 1, 1), 0);
	first = bytes;
	had = room;
	cr_assert_eq(array_grow(&bytes, &room, too_many, 16), -ENOMEM);
	cr_assert_eq(bytes, first);
	cr_assert_eq(room, had);
	free(bytes);
}
