/* SPDX-License-Identifier: MIT */
/* Records made of blocks that ran in full and in part. */
#include "record/trail/branch.h"

#include <criterion/criterion.h>

/* nop; xor %eax, %eax; jne .-3 */
static const uint8_t code[] = { 0x90, 0x31, 0xc0, 0x75, 0xfb };
static const struct trail_entry entry = { .start = 0x1000,
					  .target = 0x1000,
					  .bytes = 5,
					  .last = 3,
					  .instructions = 3,
					  .kind = TRAIL_BRANCH };

static struct wm_branch made(const struct branch_item *before, const struct branch_item *item,
			     const struct branch_item *after)
{
	struct wm_branch branch = { .size = sizeof(branch) };

	branch_make(&branch, before, item, after, (struct branch_thread){ 6, 7 });
	return branch;
}

Test(branch, says_how_far_a_block_ran)
{
	struct branch_item item = { .entry = &entry, .code = code }, after = { 0 };
	struct trail_between between = { .event = TRAIL_SIGNAL };

	after.between = &between;
	cr_expect_eq(made(NULL, &item, NULL).last, 0x1003);
	cr_expect_eq(made(NULL, &item, &after).last, 0x1003);
	between.left = 1;
	cr_expect_eq(made(NULL, &item, &after).last, 0x1001);
	cr_expect_eq(made(NULL, &item, &after).instructions, 2);
	between.left = 2;
	cr_expect_eq(made(NULL, &item, &after).last, 0x1000);
	between.left = 3;
	cr_expect_eq(made(NULL, &item, &after).instructions, 0);
	between.left = 200; /* nonsense */
	cr_expect_eq(made(NULL, &item, &after).instructions, 0);
	item.code = NULL;
	between.left = 1;
	cr_expect_eq(made(NULL, &item, &after).last, 0x1000,
		     "where it is not known, the block's first");
}

Test(branch, tells_taken_from_not_taken_by_where_it_led)
{
	struct trail_entry on = { .start = 0x1005, .bytes = 1, .instructions = 1 };
	struct branch_item before = { .entry = &entry, .code = code };
	struct branch_item again = before, straight = { .entry = &on };

	cr_expect_eq(made(&before, &again, NULL).flags, WM_BRANCH_CONDITIONAL);
	cr_expect_eq(made(&before, &again, NULL).from, 0x1003);
	cr_expect_eq(made(&before, &straight, NULL).flags, WM_BRANCH_NOT_TAKEN);
	cr_expect_eq(made(NULL, &straight, NULL).flags, 0);
	cr_expect_eq(made(NULL, &straight, NULL).from, 0);
}

Test(branch, says_where_an_event_found_the_thread)
{
	struct trail_between between = {
		.event = TRAIL_SIGNAL, .at = 0x1001, .left = 2, .values = { 11, 0x2000 }
	};
	struct branch_item before = { .entry = &entry, .code = code };
	struct branch_item event = { .between = &between };

	cr_expect_eq(made(&before, &event, NULL).from, 0x1001);
	cr_expect_eq(made(&before, &event, NULL).to, 0x2000);
	between = (struct trail_between){ .event = TRAIL_SYSCALLED, .at = 0x1005 };
	cr_expect_eq(made(&before, &event, NULL).from, 0x1003);
	cr_expect_eq(made(&before, &event, NULL).to, 0x1005);
	between = (struct trail_between){ .event = TRAIL_END, .at = 0x1005 };
	cr_expect_eq(made(&before, &event, NULL).from, 0x1005);
	cr_expect_eq(made(&before, &event, NULL).to, 0);
}

/* A caller that was built for a shorter record. */
Test(branch, fills_in_no_more_than_there_is_room_for)
{
	struct branch_item item = { .entry = &entry, .code = code };
	struct wm_branch branch = { .size = offsetof(struct wm_branch, flags), .tid = -1 };

	branch_make(&branch, NULL, &item, NULL, (struct branch_thread){ 6, 7 });
	cr_expect_eq(branch.to, 0x1000);
	cr_expect_eq(branch.tid, -1);
	cr_expect_eq(branch.size, offsetof(struct wm_branch, flags));
}
