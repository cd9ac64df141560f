/* SPDX-License-Identifier: MIT */
/* Two runs that take another way: where that counts, and where not. */
#include "read/history/testing/divergence_fixture.h"

#include <criterion/criterion.h>

TestSuite(divergence, .init = begin, .fini = end);

Test(divergence, is_none_though_all_lies_elsewhere)
{
	for (int i = 0; i < 2; i++) {
		turns(&runs[i], 1000);
		leaves(&runs[i], 0);
	}
	compare();
	expect_same(0);
	cr_expect_eq(result.blocks, 1000 * TURN_BLOCKS + 2);
	cr_expect_eq(result.instructions, 1000 * (TURN_BLOCKS * 2 - 2) + 4);
}

Test(divergence, is_none_where_both_have_paths)
{
	A->has_paths = 1;
	for (int i = 0; i < 2; i++) {
		if (i) { /* where one's paths end, the other's do not */
			ran(&runs[i], &HEAD);
			run_path(&runs[i]);
		} else {
			ran(&runs[i], &HEAD);
		}
		ran(&runs[i], &CALLS);
		ran(&runs[i], &SCAN);
		ran(&runs[i], &FOUND);
		ran(&runs[i], &TAIL);
		turns(&runs[i], 1000);
		leaves(&runs[i], 0);
	}
	compare();
	expect_same(0);
	cr_expect_eq(result.blocks, 1000 * TURN_BLOCKS + 7);
	cr_expect_gt(A->trails.spaces[0].table.paths, 5u);
}

Test(divergence, is_where_the_program_takes_another_way)
{
	turns(A, 1000);
	leaves(A, 0);
	turns(B, 700);
	leaves(B, 0);
	compare();
	cr_assert_eq(result.kind, DIVERGENCE_WAY);
	cr_expect_eq(result.blocks, 700 * TURN_BLOCKS + 1);
	cr_expect_eq(result.parted[0], at(A, &HEAD) + 6);
	cr_expect_eq(result.parted[1], at(B, &HEAD) + 6);
	expect_next(0, at(A, &CALLS));
	expect_next(1, at(B, &LEAVE));
}

static void library_takes_another_way(void)
{
	turns(A, 10);
	turn(A, 5);
	leaves(A, 0);
	turns(B, 10);
	turn(B, 2);
	leaves(B, 0);
	compare();
}

Test(divergence, within_a_library_is_harmless)
{
	library_takes_another_way();
	expect_same(1);
	cr_expect_eq(result.harmless[0].kind, HARMLESS_LIBRARY);
	cr_expect_str_eq(result.harmless[0].module, "libc.so.6");
	cr_expect_eq(result.harmless[0].blocks[0], 7);
	cr_expect_eq(result.harmless[0].blocks[1], 1);
}

Test(divergence, within_a_library_counts_if_all_does)
{
	options.all = 1;
	library_takes_another_way();
	cr_expect_eq(result.kind, DIVERGENCE_WAY);
	expect_next(0, at(A, &MORE));
	expect_next(1, at(B, &FOUND));
}

Test(divergence, counts_where_the_library_calls_the_program_on_its_other_way)
{
	static const struct code calls = { LIBRARY, 0x2004, 5, TRAIL_CALL, PROGRAM, 0x200 },
				 back = { LIBRARY, 0x2009, 2, TRAIL_JUMP, LIBRARY, 0x2000 };

	for (int i = 0; i < 2; i++) {
		turns(&runs[i], 3);
		ran(&runs[i], &HEAD);
		ran(&runs[i], &CALLS);
		for (int j = 0; j < 2 + i; j++) {
			ran(&runs[i], &SCAN);
			ran(&runs[i], &calls);
			ran(&runs[i], &HANDLER);
			ran(&runs[i], &back);
		}
		ran(&runs[i], &SCAN);
		ran(&runs[i], &FOUND);
		ran(&runs[i], &TAIL);
		leaves(&runs[i], 0);
	}
	compare();
	cr_expect_eq(result.kind, DIVERGENCE_WAY);
	expect_next(0, at(A, &FOUND));
	expect_next(1, at(B, &calls));
}

Test(divergence, counts_where_the_library_never_returns)
{
	static const struct code stops = { LIBRARY, 0x2010, 2, TRAIL_STOP, PROGRAM, 0 };

	turns(A, 3);
	leaves(A, 0);
	turns(B, 2);
	ran(B, &HEAD);
	ran(B, &CALLS);
	ran(B, &SCAN);
	ran(B, &stops);
	event(B, TRAIL_END, 0, TRAIL_KILLED, 4);
	compare();
	cr_expect_eq(result.kind, DIVERGENCE_WAY);
	cr_expect_eq(result.blocks, 2 * TURN_BLOCKS + 3);
}

Test(divergence, within_a_library_is_harmless_though_it_calls_on)
{
	static const struct code calls = { LIBRARY, 0x2004, 5, TRAIL_CALL, LIBRARY, 0x2100 },
				 called = { LIBRARY, 0x2100, 4, TRAIL_RETURN, LIBRARY, 0 },
				 back = { LIBRARY, 0x2009, 2, TRAIL_JUMP, LIBRARY, 0x2000 };

	for (int i = 0; i < 2; i++) {
		turns(&runs[i], 3);
		ran(&runs[i], &HEAD);
		ran(&runs[i], &CALLS);
		ran(&runs[i], &SCAN);
		for (int j = 0; j < i; j++) {
			ran(&runs[i], &calls);
			ran(&runs[i], &called);
			ran(&runs[i], &back);
			ran(&runs[i], &SCAN);
		}
		ran(&runs[i], &FOUND);
		ran(&runs[i], &TAIL);
		leaves(&runs[i], 0);
	}
	compare();
	expect_same(1);
	cr_expect_eq(result.harmless[0].blocks[0], 1);
	cr_expect_eq(result.harmless[0].blocks[1], 5);
}

Test(divergence, counts_where_the_library_returns_elsewhere)
{
	for (int i = 0; i < 2; i++) {
		ran(&runs[i], &HEAD);
		ran(&runs[i], &CALLS);
		ran(&runs[i], &SCAN);
		if (i) {
			ran(&runs[i], &MORE);
			ran(&runs[i], &SCAN);
		}
		ran(&runs[i], &FOUND);
		ran(&runs[i], i ? &AFTER : &TAIL);
		leaves(&runs[i], 0);
	}
	compare();
	cr_expect_eq(result.kind, DIVERGENCE_WAY);
	cr_expect_eq(result.harmless_total, 0);
	cr_expect_eq(result.blocks, 3);
}

/* Both plugins differ in how often they loop. */
static void plugin_takes_another_way(void)
{
	static const struct code calls = { PROGRAM, 0x108, 5, TRAIL_CALL, PLUGIN, 0x10 },
				 loops = { PLUGIN, 0x10, 4, TRAIL_BRANCH, PLUGIN, 0x10 },
				 out = { PLUGIN, 0x14, 4, TRAIL_RETURN, PROGRAM, 0 };

	for (int i = 0; i < 2; i++) {
		ran(&runs[i], &HEAD);
		ran(&runs[i], &calls);
		for (int j = 0; j < 3 + i; j++)
			ran(&runs[i], &loops);
		ran(&runs[i], &out);
		ran(&runs[i], &TAIL);
		leaves(&runs[i], 0);
	}
	compare();
}

Test(divergence, counts_within_any_other_library)
{
	plugin_takes_another_way();
	cr_expect_eq(result.kind, DIVERGENCE_WAY);
}

Test(divergence, is_harmless_where_one_says_so)
{
	static const char *const names[] = { "nothing", "plug*" };

	options.harmless = names;
	options.harmless_count = 2;
	plugin_takes_another_way();
	expect_same(1);
}

Test(divergence, of_code_in_no_module_is_told_by_its_bytes)
{
	static const struct code made = { NOWHERE, 0x10, 7, TRAIL_CALL, PROGRAM, 0x200 },
				 then = { NOWHERE, 0x17, 4, TRAIL_RETURN, PROGRAM, 0 };

	for (int i = 0; i < 2; i++) {
		runs[i].fill = 9;
		for (int j = 0; j < 2; j++) {
			ran(&runs[i], &made);
			ran(&runs[i], &HANDLER);
			ran(&runs[i], &then);
			runs[i].fill = (uint8_t)(9 + i); /* other code at the same place */
		}
		leaves(&runs[i], 0);
	}
	compare();
	cr_expect_eq(result.kind, DIVERGENCE_WAY);
	cr_expect_eq(result.blocks, 3);
}

Test(divergence, of_code_in_no_module_is_another_place_to_lead_to)
{
	for (int i = 0; i < 2; i++) {
		struct code jumps = { NOWHERE, 0x10, 7, TRAIL_JUMP, PROGRAM, i ? 0x140 : 0x100 };

		runs[i].fill = 9;
		ran(&runs[i], &jumps);
		ran(&runs[i], i ? &LEAVE : &HEAD);
	}
	compare();
	cr_expect_eq(result.kind, DIVERGENCE_WAY);
	cr_expect_eq(result.blocks, 0);
}
