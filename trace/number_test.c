/* SPDX-License-Identifier: MIT */
#include "trace/number.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Test(number, names_are_numbered_in_order_of_first_use)
{
	struct number_list list = { 0 };
	char name[16] = "db:query";

	cr_assert_eq(number_of_name(&list, name), 1);
	cr_assert_eq(number_of_name(&list, "db:busy"), 2);
	strcpy(name, "gone"); /* the list has a copy */
	cr_assert_eq(number_of_name(&list, "db:query"), 1);
	cr_assert_eq(number_of_name(&list, ""), 3);
	number_list_release(&list);
	cr_assert_eq(number_of_name(&list, "db:busy"), 1);
	number_list_release(&list);
}

Test(number, full_list_gives_known_names_alone)
{
	struct number_list list = { 0 };
	size_t bytes = NUMBER_BYTES_MAX / 4;
	char *name = malloc(bytes);

	memset(name, 'x', bytes - 1);
	name[bytes - 1] = '\0';
	for (uint32_t i = 1; i <= 4; i++) {
		name[0] = (char)('0' + i);
		cr_assert_eq(number_of_name(&list, name), i);
	}
	cr_assert_eq(number_of_name(&list, "x"), 0);
	cr_assert_eq(number_of_name(&list, name), 4);
	number_list_release(&list);
	free(name);
}

Test(number, list_is_full_after_so_many_names)
{
	struct number_list list = { 0 };
	char name[16];

	for (uint32_t i = 1; i <= NUMBER_COUNT_MAX; i++) {
		snprintf(name, sizeof(name), "%u", i);
		cr_assert_eq(number_of_name(&list, name), i);
	}
	cr_assert_eq(number_of_name(&list, "another"), 0);
	cr_assert_eq(number_of_name(&list, "1"), 1);
	number_list_release(&list);
}
