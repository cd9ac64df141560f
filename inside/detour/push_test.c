/* SPDX-License-Identifier: MIT */
/* Events at a function's entry whose jump is behind pushes and the like. */
#include "inside/detour/moved.h"
#include "inside/detour/testing/fixture.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <string.h>

/* Adds its arguments; reads them from the stack. */
long push_two(long one, long two);
__asm__(".text\n"
	".balign 16\n"
	".globl push_two\n"
	"push_two:\n\t"
	"push %rdi\n\t"
	"push %r12\n\t"
	"mov %rsi, %r12\n\t"
	"mov 8(%rsp), %rax\n\t"
	"add %r12, %rax\n\t"
	"pop %r12\n\t"
	"pop %rdi\n\t"
	"ret\n");

static const struct trial_wish two_wish = { .function = (void (*)(void))push_two,
					    .pushes = 2,
					    .pushed_bytes = 3,
					    .insn_bytes = 3,
					    .starts = 1,
					    .argument = 2,
					    .name = "two" };

Test(push, event_behind_push_is_recorded)
{
	uint8_t before[16];

	trial_begin();
	memcpy(before, (void *)trial_pushes, sizeof before);
	trial_arm_detour(&trial_pushes_wish);
	cr_assert_eq(*trial_jump(&trial_pushes_wish), 0xe9);
	cr_assert_arr_eq((void *)trial_pushes, before, 2);
	cr_assert_eq(trial_pushes(41), 42);
	cr_assert_eq(trial_events(0), 1);
	cr_assert_eq(trial_last[0], 41);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_arr_eq((void *)trial_pushes, before, sizeof before);
	cr_assert_eq(trial_pushes(41), 42);
}

Test(push, pushed_words_are_kept)
{
	trial_begin();
	trial_arm_detour(&two_wish);
	cr_assert_eq(push_two(40, 2), 42);
	cr_assert_eq(trial_events(0), 1);
	cr_assert_eq(trial_last[0], 40);
	cr_assert_eq(trial_last[1], 2);
}

Test(push, return_is_recorded)
{
	struct trial_wish wish = two_wish;

	trial_begin();
	trial_arm_return(&wish);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(push_two(40, i), 40 + i);
	cr_assert_eq(trial_events(0), 3);
	cr_assert_eq(trial_last[1], 2);
	cr_assert_eq(trial_events(1), 3);
	cr_assert_eq(trial_last[0], 42);
}

/* Adds its arguments, kept in the two words right below its return address. */
long push_room(long one, long two);
__asm__(".text\n"
	".balign 16\n"
	".globl push_room\n"
	"push_room:\n\t"
	"sub $80, %rsp\n\t"
	"mov %rdi, 72(%rsp)\n\t"
	"mov %rsi, 64(%rsp)\n\t"
	"mov $0x12345678, %eax\n\t"
	"mov 72(%rsp), %rax\n\t"
	"add 64(%rsp), %rax\n\t"
	"add $80, %rsp\n\t"
	"ret\n");

Test(push, words_below_return_address_are_kept_when_return_is_recorded)
{
	struct trial_wish room = { .function = (void (*)(void))push_room,
				   .pushes = 10,
				   .pushed_bytes = 14,
				   .insn_bytes = 5,
				   .starts = 1,
				   .argument = 2,
				   .name = "room" };

	trial_begin();
	trial_arm_return(&room);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(push_room(40, i), 40 + i);
	cr_assert_eq(trial_events(0), 3);
	cr_assert_eq(trial_events(1), 3);
	cr_assert_eq(trial_last[0], 42);
}

Test(push, one_word_is_kept_when_return_is_recorded)
{
	struct trial_wish wish = trial_pushes_wish;

	trial_begin();
	trial_arm_return(&wish);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(trial_pushes(41), 42);
	cr_assert_eq(trial_events(0), 3);
	cr_assert_eq(trial_events(1), 3);
	cr_assert_eq(trial_last[0], 42);
}

Test(push, chain_of_three_is_recorded)
{
	struct trial_wish returning = two_wish, third = two_wish;

	trial_begin();
	returning.flags = DETOUR_RETURN | DETOUR_SECRETIVE;
	returning.argument = 0;
	third.name = "third";
	trial_arm_detour(&two_wish);
	trial_arm_detour(&returning);
	trial_arm_detour(&third);
	cr_assert_eq(push_two(40, 2), 42);
	for (uint32_t id = 0; id < 3; id++) {
		cr_assert_eq(trial_events(id), 1);
		cr_assert_eq(trial_last[0], id == 1 ? 42 : 40);
	}
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_eq(push_two(40, 2), 42);
}

/* The distance of a jump at the first push would end in the other jump. */
Test(push, jump_at_the_push_is_refused)
{
	struct trial_wish own = two_wish;

	trial_begin();
	own.pushes = own.pushed_bytes = 0;
	own.insn_bytes = 1;
	own.starts = 5;
	trial_arm_detour(&two_wish);
	cr_assert_eq(trial_try(&own), -WM_E_DETOUR_TAKEN);
}

Test(push, moved_from_finds_the_copy)
{
	uintptr_t moved, copy, original;

	trial_begin();
	trial_arm_detour(&two_wish);
	moved = detour_first()->code + detour_first()->record->moved_at;
	cr_assert_neq(moved_from(moved, &copy, &original), 0);
	cr_assert_eq(moved_from(moved + 3, &copy, &original), 0);
	cr_assert_eq(copy, moved);
	cr_assert_eq(original, (uintptr_t)push_two + 3);
}
