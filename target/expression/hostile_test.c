/* SPDX-License-Identifier: MIT */
/*
 * Debug information that was made to take all time, all memory, all of the stack, or what is not
 * its own.
 */
#include "target/expression/testing/find.h"
#include "target/expression/variable.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/resource.h>
#include <waymark/error.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1 /* that takes much memory of its own */
#else
#define IS_SANITIZED 0
#endif

static void open_hostile(void)
{
	const struct rlimit memory = { 1u << 29, 1u << 29 };

	folder_make("gcc");
	shell("gcc -shared -nostdlib -o hostile.so %s/sample_hostile.S", SAMPLES);
	module_open("hostile.so");
	if (!IS_SANITIZED)
		setrlimit(RLIMIT_DATA, &memory);
}

/*
 * Seconds here are what it takes to notice that it takes for ever; a good answer takes
 * milliseconds.
 */
TestSuite(watch_hostile, .init = open_hostile, .fini = find_end, .timeout = 60);

Test(watch_hostile, what_is_good_in_it_is_found)
{
	cr_assert_eq(find("good"), 0, "%s", trouble.detail);
	cr_assert_str_eq(expression_type_name(&place.type), "int");
	cr_assert_eq(place.bytes, 4);
}

Test(watch_hostile, types_made_of_themselves_are_damaged)
{
	cr_assert_eq(find("typedefs"), -WM_E_WATCH_DAMAGED);
	cr_assert_eq(find("typedefs.x"), -WM_E_WATCH_DAMAGED);
	cr_assert_eq(find("*typedefs"), -WM_E_WATCH_DAMAGED);
	cr_assert_eq(find("consts[1]"), -WM_E_WATCH_DAMAGED);
	cr_assert_eq(find("array"), -WM_E_WATCH_DAMAGED);
	cr_assert_eq(find("array[1]"), -WM_E_WATCH_DAMAGED);
	cr_assert_eq(find("nowhere"), -WM_E_WATCH_DAMAGED);
}

Test(watch_hostile, members_of_themselves_end)
{
	cr_assert_eq(find("itself.x"), -WM_E_WATCH_DAMAGED);
	cr_assert_eq(find("bases.x"), -WM_E_WATCH_DAMAGED);
	cr_assert_eq(find("itself"), 0, "%s", trouble.detail);
	cr_assert_leq(place.type.node_count, WATCH_NODES_MAX);
	cr_assert_eq(expression_type_check(&place.type), 0);
	cr_assert_eq(find("bases"), -WM_E_WATCH_DAMAGED, "the second lies outside");
}

Test(watch_hostile, sizes_that_no_number_holds_are_damaged)
{
	cr_assert_eq(find("huge"), -WM_E_WATCH_DAMAGED);
	cr_assert_eq(find("product"), -WM_E_WATCH_DAMAGED);
	cr_assert_eq(find("huge[4611686018427387904]"), -WM_E_WATCH_MEMBER);
	cr_assert_eq(find("huge[2]"), 0);
	cr_assert_eq(place.bytes, 4);
}

Test(watch_hostile, members_outside_are_no_members)
{
	cr_assert_eq(find("out"), -WM_E_WATCH_DAMAGED);
	cr_assert_eq(find("out.far"), 0);
}

Test(watch_hostile, far_too_many_are_cut)
{
	cr_assert_eq(find("enumeration"), 0);
	cr_assert_leq(place.type.node_count, WATCH_NODES_MAX);
	cr_assert(place.type.nodes[0].flags & WATCH_IS_CUT);
	cr_assert_leq(place.type.nodes[0].count, 512);
	cr_assert_eq(find("many"), 0);
	cr_assert_leq(place.type.node_count, WATCH_NODES_MAX);
	cr_assert(place.type.nodes[0].flags & WATCH_IS_CUT);
	cr_assert_eq(find("many.m"), 0);
	cr_assert_eq(find("many.x"), -WM_E_WATCH_DAMAGED);
}

Test(watch_hostile, names_of_types_end)
{
	cr_assert_eq(find("caller"), 0);
	cr_assert_lt(strlen(expression_type_name(&place.type)), 256);
	cr_assert_eq(find("pointer"), 0);
	cr_assert_eq(find("**pointer"), 0);
	cr_assert_eq(place.follow_count, 2);
}

static int name_take(const char *name, void *data)
{
	(void)name;
	++*(int *)data;
	return 0;
}

Test(watch_hostile, what_is_too_deep_is_left_out)
{
	int count = 0;

	cr_assert_eq(find("deep"), -WM_E_WATCH_VARIABLE);
	cr_assert_eq(find("n::n::deep"), -WM_E_WATCH_VARIABLE);
	cr_assert_eq(expression_names(modules[0], name_take, &count), 0);
	cr_assert_gt(count, 10);
}
