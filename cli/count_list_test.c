/* SPDX-License-Identifier: MIT */
#include "cli/count_list.h"

#include "cli/cli.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <string.h>

static struct count_list list;

static void end(void)
{
	count_list_release(&list);
}

TestSuite(count_list, .init = cr_redirect_stderr, .fini = end);

Test(count_list, names_in_braces_are_one_group)
{
	cr_assert_eq(count_list_add(&list, "page-faults,{task-clock,cpu-clock:u},minor-faults"), 0);
	cr_assert_eq(count_list_add(&list, "r1a2"), 0);
	cr_assert_eq(list.count, 5);
	cr_expect_str_eq(list.events[2].name, "cpu-clock:u");
	cr_expect_eq(list.groups[1], list.groups[2]);
	cr_expect_neq(list.groups[0], list.groups[1]);
	cr_expect_neq(list.groups[2], list.groups[3]);
	cr_expect_neq(list.groups[3], list.groups[4]);
	cr_expect_eq(list.events[4].config, 0x1a2);
}

Test(count_list, list_without_a_name_is_refused)
{
	static const char *const bad[] = { "",
					   ",",
					   "page-faults,",
					   "{}",
					   "{page-faults",
					   "{page-faults,}",
					   "}",
					   "page-faults}",
					   "page-faults,,task-clock",
					   "{{page-faults}}",
					   "{page-faults}}",
					   "nonsense" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_eq(count_list_add(&list, bad[i]), CLI_USAGE, "%s", bad[i]);
}

Test(count_list, name_of_any_length_is_refused_or_read)
{
	char text[4 * COUNT_NAME_BYTES];

	for (size_t bytes = COUNT_NAME_BYTES - 2; bytes < COUNT_NAME_BYTES + 3; bytes++) {
		memset(text, 'x', bytes);
		text[bytes] = 0;
		cr_expect_eq(count_list_add(&list, text), CLI_USAGE);
	}
	memset(text, '/', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	cr_expect_eq(count_list_add(&list, text), CLI_USAGE);
	cr_expect_eq(list.count, 0);
}

Test(count_list, more_events_than_can_be_counted_are_refused)
{
	unsigned int count = 0;

	while (count < 2000 && !count_list_add(&list, "page-faults"))
		count++;
	cr_expect_eq(count, 1024);
	cr_expect_eq(list.count, 1024);
}
