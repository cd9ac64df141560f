/* SPDX-License-Identifier: MIT */
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
