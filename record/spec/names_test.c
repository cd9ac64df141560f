/* SPDX-License-Identifier: MIT */
#include "record/spec/names.h"

#include <criterion/criterion.h>
#include <stdio.h>

Test(names, add_keeps_each_name_once)
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
		cr_assert_str_eq(list.all[i], name, "names keep their order");
	}
	name_list_release(&list);
	cr_assert_eq(list.count, 0);
}

Test(names, add_ignores_names_past_limit)
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
