/* SPDX-License-Identifier: MIT */
#include "session/names.h"

#include <criterion/criterion.h>
#include <stdio.h>

Test(names, each_is_kept_once)
{
	struct name_list list = { 0 };
	char name[32];

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 3000; i++) {
			snprintf(name, sizeof name, "many:site_%d", i);
			cr_assert_eq(name_list_add(&list, name), 0);
		}
	}
	cr_assert_eq(list.count, 3000);
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof name, "many:site_%d", i);
		cr_assert_str_eq(list.all[i], name, "in the order in which they came");
	}
	name_list_release(&list);
	cr_assert_eq(list.count, 0);
}

Test(names, more_than_the_most_are_left_out)
{
	struct name_list list = { 0 };
	char name[32];

	for (int i = 0; i < NAMES_MAX + 100; i++) {
		snprintf(name, sizeof name, "%d", i);
		cr_assert_eq(name_list_add(&list, name), 0);
	}
	cr_assert_eq(list.count, NAMES_MAX);
	name_list_release(&list);
}
