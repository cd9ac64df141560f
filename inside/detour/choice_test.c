/* SPDX-License-Identifier: MIT */
/* Which of an event's instructions the agent takes, and in which form. */
#include "inside/detour/memory.h"
#include "inside/detour/testing/fixture.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES 4096u

/* Its argument + 1. The first two instructions have the form "byte" alone. */
long choice_two(long value);
/* Its argument + 1. The first instruction has the form "first" alone, the second "byte". */
long choice_first(long value);
__asm__(".text\n"
	".balign 16\n"
	".globl choice_two, choice_first\n"
	"choice_two:\n\tnop\n\tnop\n\tmov %rdi, %rax\n\tadd $1, %eax\n\tret\n\t"
	".balign 16\n"
	"choice_first:\n\tmov $1, %eax\n\tadd %rdi, %rax\n\tret\n\tnop\n");

#define CHOICES 2

static const struct trial_wish two[CHOICES] = {
	{ .function = (void (*)(void))choice_two,
	  .insn_bytes = 1,
	  .starts = 3,
	  .argument = 1,
	  .name = "two" },
	{ .function = (void (*)(void))choice_two,
	  .skipped = 1,
	  .insn_bytes = 1,
	  .starts = 9,
	  .argument = 1,
	  .name = "two" },
};
static const struct trial_wish first[CHOICES] = {
	{ .function = (void (*)(void))choice_first,
	  .insn_bytes = 5,
	  .starts = 9,
	  .argument = 1,
	  .name = "first" },
	{ .function = (void (*)(void))choice_first,
	  .skipped = 5,
	  .insn_bytes = 3,
	  .starts = 3,
	  .argument = 1,
	  .name = "first" },
};

static int place(const struct trial_wish wishes[CHOICES], uint32_t flags)
{
	union trial_record records[CHOICES];

	for (unsigned int i = 0; i < CHOICES; i++) {
		struct trial_wish wish = wishes[i];

		wish.flags |= flags | (i ? DETOUR_ELSE : 0);
		trial_compose(&records[i], &wish);
	}
	return trial_place_choices(records, CHOICES);
}

static void commit(void)
{
	struct detour_result result;

	cr_assert_eq(trial_commit(&result), 0);
	cr_assert_eq(result.markers, 1);
	cr_assert_eq(result.unsafe, 0);
}

static void expect_at(const struct trial_wish *wish, long (*function)(long))
{
	uint64_t before = trial_events(0);

	cr_assert_eq(*trial_jump(wish), 0xe9);
	cr_assert_eq(function(41), 42);
	cr_assert_eq(trial_events(0), before + 1);
	cr_assert_eq(trial_last[0], 41);
}

Test(choice, landing_in_use_selects_second)
{
	trial_deny(&two[0], FORM_BYTE);
	trial_begin();
	cr_assert_eq(trial_try(&two[0]), -WM_E_PUN_TAKEN);
	cr_assert_eq(place(two, 0), 0);
	commit();
	expect_at(&two[1], choice_two);
	cr_assert_eq(*trial_jump(&two[0]), 0x90);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_eq(choice_two(41), 42);
}

Test(choice, best_form_wins_over_order)
{
	trial_begin();
	cr_assert_eq(place(first, 0), 0);
	commit();
	expect_at(&first[1], choice_first);
	cr_assert_eq(*trial_jump(&first[0]), 0xb8);
}

Test(choice, first_form_alone_counts_as_unsafe)
{
	struct detour_result result;

	trial_deny(&first[1], FORM_BYTE);
	trial_deny(&first[1], FORM_BEHIND);
	trial_begin();
	cr_assert_eq(place(first, 0), 0);
	cr_assert_eq(trial_commit(&result), 0);
	cr_assert_eq(result.markers, 1);
	cr_assert_eq(result.unsafe, 1);
	expect_at(&first[0], choice_first);
}

Test(choice, safe_refuses_first_form)
{
	struct trial_wish safe = first[0];

	trial_begin();
	safe.flags = DETOUR_SAFE;
	cr_assert_eq(trial_try(&safe), -WM_E_SPAN_UNSAFE);
	/* the other choice has a safe form */
	cr_assert_eq(place(first, DETOUR_SAFE), 0);
	commit();
	expect_at(&first[1], choice_first);
	cr_assert_eq(trial_let_go(), 0);
	/* another event has a jump in this form already */
	trial_arm_detour(&trial_first_wish);
	safe = trial_first_wish;
	safe.flags = DETOUR_SAFE;
	cr_assert_eq(trial_try(&safe), -WM_E_SPAN_UNSAFE);
}

Test(choice, existing_jump_is_shared)
{
	trial_begin();
	trial_other_begin();
	trial_other_arm(&first[0]);
	cr_assert_eq(place(first, 0), 0);
	cr_assert_eq(detour_first()->jump.form, FORM_FIRST);
	cr_assert(detour_first()->prepared & 1u << TRIAL_LANE);
	cr_assert_null(detour_first()->next, "it is the same event");
}

Test(choice, landing_refused_at_commit_selects_second_next_time)
{
	struct detour_result result;
	void *there;

	trial_begin();
	cr_assert_eq(place(two, 0), 0);
	there = (void *)(detour_first()->jump.landings[0] & ~(uintptr_t)(PAGE_BYTES - 1));
	cr_assert_eq(mmap(there, PAGE_BYTES, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
		     there);
	trial_commit(&result);
	cr_assert_eq(result.markers, 0);
	cr_assert_eq(result.refused, 1);
	cr_assert_eq(trial_told.refusal[0].error, -WM_E_PUN_TAKEN);
	cr_assert_eq(choice_two(41), 42);
	cr_assert_eq(place(two, 0), 0);
	commit();
	cr_assert_eq(*trial_jump(&two[1]), 0xe9);
	cr_assert_eq(choice_two(41), 42);
	cr_assert_eq(trial_events(1), 1);
}

Test(choice, taken_memory_is_the_last_reason_reported)
{
	trial_deny(&two[1], FORM_BYTE);
	trial_begin();
	memory_limit(0);
	cr_assert_eq(place(two, 0), -WM_E_DETOUR_MEMORY);
}

Test(choice, damaged_or_too_many_are_refused)
{
	union trial_record records[DETOUR_CHOICES_MAX + 1];

	trial_begin();
	for (unsigned int i = 0; i <= DETOUR_CHOICES_MAX; i++) {
		struct trial_wish wish = two[1];

		wish.flags = i ? DETOUR_ELSE : 0;
		trial_compose(&records[i], &wish);
	}
	cr_assert_eq(trial_place_choices(records, DETOUR_CHOICES_MAX + 1), -WM_E_PROTOCOL);
	records[1].head.insn_bytes = 0;
	cr_assert_eq(trial_place_choices(records, 2), -WM_E_PROTOCOL);
	cr_assert_null(detour_first());
	cr_assert_eq(trial_place_choices(records, 1), 0);
}
