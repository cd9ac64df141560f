/* SPDX-License-Identifier: MIT */
#include "record/spec/spec.h"

#include <criterion/criterion.h>
#include <string.h>
#include <waymark/error.h>

static struct spec_list list;

Test(spec, add_marker_with_or_without_kind)
{
	cr_assert_eq(spec_add(&list, "marker:net:rx"), 0);
	cr_assert_eq(spec_add(&list, "db:*"), 0);
	cr_assert_str_eq(list.all[0].glob, "net:rx");
	cr_assert_str_eq(list.all[1].glob, "db:*");
	cr_assert(spec_matches(&list.all[1], "db:commit"));
	cr_assert_not(spec_matches(&list.all[1], "net:rx"));
	spec_list_release(&list);
}

Test(spec, add_kernel_event_is_no_marker)
{
	cr_assert_eq(spec_add(&list, "count:page-faults"), 0);
	cr_assert_eq(spec_add(&list, "switch"), 0);
	cr_assert_eq(spec_add(&list, "switch"), -WM_E_SPEC_TWICE);
	cr_assert_eq(spec_add(&list, "sample:no-such/freq=9/"), -WM_E_COUNT_EVENT);
	cr_assert(strstr(list.words, "no-such"));
	cr_assert_eq(spec_count(&list, SPEC_OF(glob)), 0);
	cr_assert_eq(spec_missing(&list.all[0]), 0);
	spec_list_release(&list);
}

Test(spec, add_watch_is_no_marker)
{
	cr_assert_eq(spec_add(&list, "watch:counter"), 0);
	cr_assert_eq(spec_add(&list, "watch:table[3].name:rw/if=changed/"), 0);
	cr_assert_eq(spec_add(&list, "marker:watch:counter"), 0);
	cr_assert_eq(spec_add(&list, "watch:counter"), -WM_E_SPEC_TWICE);
	cr_assert_eq(spec_add(&list, "watch:"), -WM_E_WATCH_SYNTAX);
	cr_assert_eq(spec_add(&list, "watch:counter/if=so/"), -WM_E_SPEC);
	cr_assert(strstr(list.words, "\"so\" (column 18) is no condition"));
	cr_assert_eq(spec_count(&list, SPEC_OF(watch)), 2);
	cr_assert_eq(spec_count(&list, SPEC_OF(glob)), 1);
	cr_assert_eq(spec_count(&list, SPEC_OF(request)), 0);
	cr_assert_not(spec_matches(&list.all[0], "watch:counter"));
}

Test(spec, add_place_in_code_is_no_marker)
{
	cr_assert_eq(spec_add(&list, "func:malloc@libc.so.6/ret,arg1/"), 0);
	cr_assert_eq(spec_add(&list, "marker:func:malloc"), 0);
	cr_assert_eq(spec_add(&list, "usdt:libc:*"), 0);
	cr_assert_eq(spec_add(&list, "addr:a.c:12"), 0);
	cr_assert_eq(spec_add(&list, "func:malloc@libc.so.6/ret,arg1/"), -WM_E_SPEC_TWICE);
	cr_assert_eq(spec_add(&list, "func:"), -WM_E_SPEC);
	cr_assert_eq(spec_add(&list, "func:a/arg1:strange/"), -WM_E_FIELD_TYPE);
	cr_assert_eq(spec_count(&list, SPEC_OF(glob)), 1);
	cr_assert_eq(spec_count(&list, SPEC_OF(request)), 3);
	cr_assert_str_eq(list.all[0].request->name, "malloc");
	cr_assert_not(spec_matches(&list.all[0], "func:malloc"));
	cr_assert(spec_matches(&list.all[1], "func:malloc"));
	spec_list_release(&list);
}

Test(spec, add_refuses_a_given_name_that_another_event_has)
{
	static const char *const taken[] = { "func:g/name=db:query/", "marker:db:query", "db:query",
					     "usdt:db:query/arg1/", "addr:x+1/name=db:query/" };

	cr_assert_eq(spec_add(&list, "func:f/name=db:query/"), 0);
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
		cr_expect_eq(spec_add(&list, taken[i]), -WM_E_SPEC, "%s", taken[i]);
		cr_expect_str_eq(list.words, "its event has the name of that of "
					     "func:f/name=db:query/: give it another");
	}
	/* what may match it is another thing */
	cr_assert_eq(spec_add(&list, "db:*"), 0);
	cr_assert_eq(spec_add(&list, "usdt:db:*"), 0);
	cr_assert_eq(spec_add(&list, "net:rx"), 0);
	cr_assert_eq(spec_add(&list, "func:h/name=net:rx/"), -WM_E_SPEC);
	/* a change of a running recording takes one out, and has another of that name */
	spec_take_out(&list.all[0]);
	cr_assert_eq(spec_add(&list, "func:g/name=db:query/"), 0);
	spec_list_release(&list);
}

Test(spec, keep_error_keeps_most_useful_one)
{
	cr_assert_eq(spec_add(&list, "func:a"), 0);
	cr_assert_eq(spec_add(&list, "func:a@libc.so.6"), 0);
	spec_keep_error(&list.all[0], -WM_E_NO_SYMBOLS, "x", 0);
	cr_assert_eq(list.all[0].error, -WM_E_NO_SYMBOLS);
	cr_assert_str_eq(list.all[0].detail, "x");
	spec_keep_error(&list.all[0], -WM_E_NO_FUNCTION, NULL, 0);
	cr_assert_eq(list.all[0].error, -WM_E_NO_FUNCTION);
	cr_assert_null(list.all[0].detail);
	spec_keep_error(&list.all[0], -WM_E_NO_SYMBOLS, NULL, 0);
	cr_assert_eq(list.all[0].error, -WM_E_NO_FUNCTION);
	spec_keep_error(&list.all[1], -WM_E_NO_SYMBOLS, "y", 0);
	cr_assert_eq(list.all[1].error, -WM_E_NO_SYMBOLS);
	spec_keep_error(&list.all[0], -WM_E_FILE_REPLACED, "/lib", 0);
	spec_keep_error(&list.all[0], -WM_E_NO_FUNCTION, NULL, 0);
	cr_assert_eq(list.all[0].error, -WM_E_FILE_REPLACED);
	cr_assert_str_eq(list.all[0].detail, "/lib");
	spec_keep_error(&list.all[0], -WM_E_SPAN_TARGET, "z", 1);
	spec_keep_error(&list.all[0], -WM_E_NO_FUNCTION, NULL, 0);
	cr_assert_eq(list.all[0].error, -WM_E_SPAN_TARGET);
	cr_assert_str_eq(list.all[0].detail, "z");
	spec_list_release(&list);
}

Test(spec, add_second_trail_returns_spec_twice)
{
	cr_assert_null(spec_trail(&list));
	cr_assert_eq(spec_add(&list, "net:rx"), 0);
	cr_assert_eq(spec_add(&list, "trail/soft/"), 0);
	cr_assert_eq(spec_trail(&list)->origin, ORIGIN_SOFT);
	cr_assert_eq(spec_add(&list, "trail/last=64M/"), -WM_E_SPEC_TWICE);
	cr_assert_eq(spec_add(&list, "trail/sfot/"), -WM_E_SPEC);
	cr_assert_str_eq(list.words,
			 "\"sfot\" (column 7) is no option of trail; did you mean soft?");
	cr_assert_eq(spec_count(&list, SPEC_OF(glob)), 1);
	cr_assert_eq(spec_count(&list, SPEC_OF(request)), 0);
	cr_assert_not(spec_matches(&list.all[1], "trail:soft"));
	spec_list_release(&list);
}

Test(spec, add_invalid_text_returns_spec)
{
	static const char *const specs[] = { "",
					     "marker",
					     "marker:",
					     "marker:net",
					     "marker:net:",
					     "net",
					     ":",
					     "net:",
					     ":rx",
					     "marker::rx",
					     "a:b:c",
					     "marker:a:b:c",
					     "marker:a b:c",
					     "a:b/x/",
					     "a:[b",
					     "marker:a:b\n" };
	char longest[4096];

	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
		cr_assert_eq(spec_add(&list, specs[i]), -WM_E_SPEC, "%s", specs[i]);
	memset(longest, 'a', sizeof(longest) - 1);
	longest[5] = ':';
	longest[sizeof(longest) - 1] = 0;
	cr_assert_eq(spec_add(&list, longest), -WM_E_SPEC);
}

Test(spec, add_invalid_text_names_wrong_part)
{
	static const struct {
		const char *text, *words;
	} wrong[] = {
		{ "marker:net", "\"net\" (column 8) has no second colon" },
		{ "zork:a:b",
		  "\"zork\" (column 1) is no kind of event, which are marker, usdt, func" },
		{ "net", "\"net\" (column 1) is no kind of event" },
		{ "marker:n t:rx", "\"n t\" (column 8) is no SUBSYSTEM" },
		{ "marker::rx", "column 8: is no SUBSYSTEM" },
		{ "marker:net:[x", "\"[x\" (column 12) is no EVENT" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_expect_eq(spec_add(&list, wrong[i].text), -WM_E_SPEC, "%s", wrong[i].text);
		cr_expect(strstr(list.words, wrong[i].words), "%s: %s", wrong[i].text, list.words);
	}
	cr_expect_eq(list.count, 0);
}

Test(spec, add_same_spec_returns_spec_twice)
{
	cr_assert_eq(spec_add(&list, "marker:net:rx"), 0);
	cr_assert_eq(spec_add(&list, "net:rx"), -WM_E_SPEC_TWICE);
	cr_assert_eq(list.count, 1);
	spec_list_release(&list);
}

Test(spec, name_of_text_returns_subsystem_and_event)
{
	char name[32];

	cr_assert_eq(spec_name_of("mj\nnet\nrx\nfile.c\n10\nlen", name, sizeof(name)), 0);
	cr_assert_str_eq(name, "net:rx");
	cr_assert_lt(spec_name_of("mj\nnet\nrx", name, sizeof(name)), 0);
	cr_assert_lt(spec_name_of("", name, sizeof(name)), 0);
	cr_assert_lt(spec_name_of("mj\nnet\nrx\nfile.c", name, 6), 0);
}

Test(spec, count_match_counts_for_each_spec)
{
	spec_add(&list, "net:*");
	spec_add(&list, "*:rx");
	spec_add(&list, "db:*");
	spec_count_match(&list, "net:rx", 1);
	spec_count_match(&list, "net:tx", 0);
	cr_assert_eq(list.all[0].matches, 2);
	cr_assert_eq(list.all[0].placed, 1);
	cr_assert_eq(list.all[1].matches, 1);
	cr_assert_eq(list.all[2].matches, 0);
	spec_list_release(&list);
}
