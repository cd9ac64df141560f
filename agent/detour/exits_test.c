/* SPDX-License-Identifier: MIT */
#include "agent/detour/exits.h"
#include "agent/detour/trial.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <string.h>

/* Who is still in a trampoline whose jump is gone, when another stands where it leads back to. */

typedef long (*victim_fn)(long);

/* Of trial_victim, its second instruction and the third, which is where trial_victim_wish's span ends. */
static const uint8_t late_steps[] = { 4, 1 };
static const struct trial_wish late_wish = {
	.span = 5,
	.steps = late_steps,
	.step_count = 2,
	.argument = 1,
	.name = "late",
};

static struct trial_wish late(void)
{
	struct trial_wish wish = late_wish;

	wish.function = (void (*)(void))((uintptr_t)trial_victim + 3);
	return wish;
}

static struct detour *find(const char *name)
{
	struct detour *d = detour_first();

	while (d && !strstr(d->sites[0].text, name))
		d = d->next;
	return d;
}

/* As a thread that was interrupted in there. */
static victim_fn trampoline_of(const char *name)
{
	return (victim_fn)find(name)->code;
}

Test(exits, lead_into_no_span_that_stands)
{
	struct trial_wish wish = late();
	union trial_record record;

	trial_begin();
	trial_compose(&record, &wish);
	trial_arm_detour(&trial_victim_wish);
	cr_assert_eq(trampoline_of("victim")(41), 42);
	cr_assert_eq(trial_let_go(), 0);
	trial_arm_detour(&wish);
	cr_assert_eq(trial_victim(41), 42);
	cr_assert_eq(trampoline_of("victim")(41), 42);
	cr_assert_eq(trial_let_go(), 0);
}

Test(exits, lead_where_they_did_when_armed_again)
{
	struct trial_wish wish = late();
	union trial_record record;
	uintptr_t end = (uintptr_t)trial_victim + trial_victim_wish.span;

	trial_begin();
	trial_compose(&record, &wish);
	for (int turn = 0; turn < 2; turn++) {
		trial_arm_detour(&trial_victim_wish);
		cr_assert_eq(find("victim")->exit_to, end);
		cr_assert_eq(trial_victim(41), 42);
		cr_assert_eq(trial_let_go(), 0);
		trial_arm_detour(&wish);
		cr_assert_neq(find("victim")->exit_to, end);
		cr_assert_eq(trial_victim(41), 42);
		cr_assert_eq(trial_let_go(), 0);
	}
	cr_assert_eq(trial_events(0), 2);
	cr_assert_eq(trial_events(1), 2);
}

Test(exits, that_can_lead_nowhere_else_keep_the_other_away)
{
	static const uint8_t whole[] = { 5 };
	struct trial_wish wish = late();
	union trial_record record;

	trial_begin();
	wish.steps = whole;
	wish.step_count = 1;
	trial_compose(&record, &wish);
	trial_arm_detour(&trial_victim_wish);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_eq(trial_place(&record), -WM_E_DETOUR_TAKEN);
	/* of code that is gone nobody comes back */
	find("victim")->is_gone = 1;
	cr_assert_eq(trial_place(&record), 0);
}

/* ---- detours that nobody made ---- */

#define CELL UINT64_C(0x700000000040) /* at which a cell of the table begins */
#define SPAN 7
#define KNOWN 4 /* the second instruction of the head's span */

static struct made {
	struct control_detour record;
	struct detour detour;
	struct detour_move moves[2];
} made[2];

static struct detour *make(struct made *one, uintptr_t address, uintptr_t code)
{
	one->record = (struct control_detour){
		.address = address, .point = address, .span_bytes = SPAN, .move_count = 2
	};
	one->moves[0] = (struct detour_move){ 0 };
	one->moves[1] = (struct detour_move){ .from = KNOWN, .to = 9 };
	one->detour = (struct detour){
		.head = &one->detour,
		.record = &one->record,
		.moves = one->moves,
		.code = code,
		.exit_at = 30,
		.exit_to = address + SPAN,
	};
	return &one->detour;
}

/* Once in a test's process. One whose exit leads to that address is there; whether a head at that of the cell is led into. */
static int check(uintptr_t exit_to, uintptr_t code, int is_guest, int *is_led_into)
{
	struct detour *head = make(&made[0], CELL, CELL + (UINT64_C(1) << 20));
	struct detour *other = make(&made[1], exit_to - SPAN, code);
	int error;

	other->is_guest = (uint8_t)is_guest;
	table_add(other);
	error = exits_check(head);
	*is_led_into = head->is_led_into;
	return error;
}

Test(exits, are_jumps_to_what_follows_alone)
{
	static const uint8_t code[32] = { [4] = 0xe9, [12] = 0x0f, [13] = 0x84, [20] = 0xe9 };
	const struct detour_fixup fixups[] = {
		{ .offset = 5, .kind = FIXUP_REL32, .target = CELL + 100 },
		{ .offset = 14, .kind = FIXUP_REL32, .target = CELL + SPAN },
		{ .offset = 21, .kind = FIXUP_REL32, .target = CELL + SPAN },
	};
	struct detour *detour = make(&made[0], CELL, CELL);

	detour->exit_at = 0;
	detour->code_bytes = code;
	detour->fixups = fixups;
	made[0].record.fixup_count = 2;
	exits_find(detour);
	cr_assert_eq(detour->exit_at, 0, "neither a jump elsewhere nor a branch");
	cr_assert_eq(detour->exit_to, CELL + SPAN);
	made[0].record.fixup_count = 3;
	exits_find(detour);
	cr_assert_eq(detour->exit_at, 21);
}

Test(exits, that_lead_to_a_heads_start_find_its_jump)
{
	int is_led_into;

	cr_assert_eq(check(CELL, CELL, 0, &is_led_into), 0);
	cr_assert_not(is_led_into);
}

Test(exits, are_found_though_their_spans_begin_in_the_cell_before)
{
	int is_led_into;

	cr_assert_eq(check(CELL + KNOWN, CELL, 0, &is_led_into), 0);
	cr_assert(is_led_into);
}

Test(exits, of_guests_are_nobodys)
{
	int is_led_into;

	cr_assert_eq(check(CELL + KNOWN + 1, CELL, 1, &is_led_into), 0);
	cr_assert_not(is_led_into);
}

Test(exits, lead_up_no_further_than_a_jump_does)
{
	int is_led_into;

	cr_assert_eq(check(CELL + KNOWN, CELL - (UINT64_C(3) << 30), 0, &is_led_into),
		     -WM_E_DETOUR_REACH);
}

Test(exits, lead_down_no_further_than_a_jump_does)
{
	int is_led_into;

	cr_assert_eq(check(CELL + KNOWN, CELL + (UINT64_C(3) << 30), 0, &is_led_into),
		     -WM_E_DETOUR_REACH);
}
