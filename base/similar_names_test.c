/* SPDX-License-Identifier: MIT */
#include "base/similar_names.h"

#include <criterion/criterion.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *const commands[] = { "record", "list", "report", "dump" };

Test(near, distance_counts_each_kind_of_slip_once)
{
	cr_assert_eq(similar_distance("record", "record"), 0);
	cr_assert_eq(similar_distance("recrd", "record"), 1);
	cr_assert_eq(similar_distance("reccord", "record"), 1);
	cr_assert_eq(similar_distance("recard", "record"), 1);
	cr_assert_eq(similar_distance("reocrd", "record"), 1);
	cr_assert_eq(similar_distance("Record", "record"), 0);
	cr_assert_eq(similar_distance("", "dump"), 4);
	cr_assert_eq(similar_distance("dump", ""), 4);
}

Test(near, a_misspelt_word_finds_its_name)
{
	const char *out[4];

	cr_assert_eq(similar_list("reocrd", commands, COUNT(commands), out, COUNT(out)), 1);
	cr_assert_str_eq(out[0], "record");
}

Test(near, the_nearest_comes_first)
{
	const char *const names[] = { "net:rx_done", "net:tx", "net:rx" };
	const char *out[3];

	cr_assert_eq(similar_list("net:rxx", names, COUNT(names), out, COUNT(out)), 2);
	cr_assert_str_eq(out[0], "net:rx");
	cr_assert_str_eq(out[1], "net:tx");
}

Test(near, a_word_cut_short_finds_what_begins_with_it)
{
	const char *out[4];

	cr_assert_eq(similar_list("re", commands, COUNT(commands), out, COUNT(out)), 2);
	cr_assert_str_eq(out[0], "record");
	cr_assert_str_eq(out[1], "report");
}

Test(near, nothing_is_near_to_a_strange_word)
{
	const char *out[4];

	cr_assert_eq(similar_list("xylophone", commands, COUNT(commands), out, COUNT(out)), 0);
	cr_assert_eq(similar_list("", commands, COUNT(commands), out, COUNT(out)), 0);
}

Test(near, no_more_than_max_are_put_and_none_twice)
{
	const char *const names[] = { "a:bd", "a:bc", "a:bc", "a:be", "a:bx" };
	const char *out[3] = { NULL, NULL, "guard" };

	cr_assert_eq(similar_list("a:bc", names, COUNT(names), out, 2), 2);
	cr_assert_str_eq(out[0], "a:bc");
	cr_assert_str_eq(out[1], "a:bd");
	cr_assert_str_eq(out[2], "guard");
	cr_assert_eq(similar_list("a:bc", names, COUNT(names), out, 0), 0);
}

Test(near, words_of_any_length_are_safe)
{
	char longer[4096];
	const char *const names[] = { longer };
	const char *out[1];

	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	cr_assert_eq(similar_distance(longer, longer), 0);
	cr_assert_eq(similar_list(longer, names, 1, out, 1), 1);
}

Test(near, a_word_in_a_scope_is_the_nearest)
{
	static const char *const names[] = { "Order::ad", "shop::Order::add", "::Order::add",
					     "Disorder::add" };
	const char *out[4];

	cr_assert_eq(similar_list("Order::add", names, COUNT(names), out, COUNT(out)), 4);
	cr_assert_str_eq(out[0], "shop::Order::add");
	cr_assert_not(similar_is_scoped("add", "add"));
	cr_assert_not(similar_is_scoped("add", "::add"));
	cr_assert_not(similar_is_scoped("", "shop::"));
	cr_assert(similar_is_scoped("add", "a::add"));
}

Test(near, word_misspelt_without_its_scope_is_near)
{
	static const char *const names[] = { "shop::Order::add", "shop::orders", "shop::till" };
	const char *out[4];

	cr_assert_eq(similar_list("ordesr", names, COUNT(names), out, COUNT(out)), 1);
	cr_assert_str_eq(out[0], "shop::orders");
	cr_assert_eq(similar_list("Ordr::add", names, COUNT(names), out, COUNT(out)), 1);
	cr_assert_str_eq(out[0], "shop::Order::add");
}
