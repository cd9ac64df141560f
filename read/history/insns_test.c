/* SPDX-License-Identifier: MIT */
#include "read/history/insns.h"

#include <criterion/criterion.h>
#include <errno.h>

#define BASE 0x550000000000u

/* nop; je itself. Behind it: nop; nop; jmp to it. */
static const struct trail_block loop = { .start = BASE + 0x1000,
					 .target = BASE + 0x1000,
					 .bytes = 3,
					 .last = 1,
					 .instructions = 2,
					 .kind = TRAIL_BRANCH };
static const struct trail_block back = { .start = BASE + 0x1003,
					 .target = BASE + 0x1000,
					 .bytes = 4,
					 .last = 2,
					 .instructions = 3,
					 .kind = TRAIL_JUMP };
static const struct trail_block rest = { .start = BASE + 0x1004,
					 .target = BASE + 0x1000,
					 .bytes = 3,
					 .last = 1,
					 .instructions = 2,
					 .kind = TRAIL_JUMP };
static const uint8_t loop_code[] = { 0x90, 0x74, 0xfd };
static const uint8_t back_code[] = { 0x90, 0x90, 0xeb, 0xf9 };

static struct insns insns;

static void end(void)
{
	insns_release(&insns);
}

TestSuite(insns, .fini = end);

static const struct insn *at(uint64_t address)
{
	size_t i = insns_below(&insns, address);

	cr_assert_lt(i, insns.count);
	cr_assert_eq(insns.all[i].address, address, "%#lx", insns.all[i].address);
	return &insns.all[i];
}

Test(insns, of_blocks_that_overlap_are_put_together)
{
	const struct ran_cut cuts[] = { { 1, 2 }, { 1, 2 }, { 1, 3 } };

	cr_assert_eq(insns_add(&insns, &loop, loop_code, BASE, &(struct ran_count){ 5, 2, 1 }, NULL,
			       0),
		     0);
	cr_assert_eq(insns_add(&insns, &back, back_code, BASE, &(struct ran_count){ 10, 0, 0 },
			       cuts, 3),
		     0);
	cr_assert_eq(insns_add(&insns, &rest, back_code + 1, BASE, &(struct ran_count){ 4, 0, 0 },
			       NULL, 0),
		     0);
	insns_settle(&insns);
	cr_assert_eq(insns.count, 5);
	cr_expect_eq(at(0x1000)->ran, 5);
	cr_expect_eq(at(0x1001)->ran, 5);
	cr_expect_eq(at(0x1001)->taken, 2);
	cr_expect_eq(at(0x1001)->fell, 2);
	cr_expect_eq(at(0x1001)->target, 0x1000);
	cr_expect_eq(at(0x1003)->ran, 9, "one was left before it");
	cr_expect_eq(at(0x1004)->ran, 7 + 4, "three were");
	cr_expect_eq(at(0x1005)->ran, 7 + 4);
	cr_expect_eq(at(0x1005)->kind, TRAIL_JUMP);
}

Test(insns, never_ran_where_all_were_left_before)
{
	const struct ran_cut cut = { 0, 1 };

	cr_assert_eq(
		insns_add(&insns, &loop, loop_code, 0, &(struct ran_count){ 1, 0, 0 }, &cut, 1), 0);
	insns_settle(&insns);
	cr_expect_eq(insns.count, 1);
}

Test(insns, end_at_code_that_is_none)
{
	static const uint8_t nonsense[] = { 0x90, 0x06, 0x06, 0x06 };

	cr_expect_eq(insns_add(&insns, &back, nonsense, BASE, &(struct ran_count){ 1, 0, 0 }, NULL,
			       0),
		     -EILSEQ);
	insns_settle(&insns);
	cr_expect_eq(insns.count, 1);
}

Test(insns, of_many_blocks_take_the_room_of_those_that_differ)
{
	for (int i = 0; i < 300000; i++)
		insns_add(&insns, &back, back_code, BASE, &(struct ran_count){ 1, 0, 0 }, NULL, 0);
	cr_expect_lt(insns.room, 300000);
	insns_settle(&insns);
	cr_expect_eq(insns.count, 3);
	cr_expect_eq(at(0x1003)->ran, 300000);
}
