/* SPDX-License-Identifier: MIT */
#include "agent/detour/trial.h"

#include "agent/store/store.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <string.h>

static const struct trial_wish victim = {
	.function = (void (*)(void))trial_victim,
	.span = TRIAL_VICTIM_SPAN,
	.steps = trial_victim_steps,
	.step_count = 2,
	.argument = 1,
	.name = "victim",
};

Test(detour, records_the_argument_and_leaves_the_function_as_it_was)
{
	uint8_t before[16];

	trial_begin();
	memcpy(before, (void *)trial_victim, sizeof before);
	trial_arm_detour(&victim);
	cr_assert_eq(*(uint8_t *)trial_victim, 0xe9);
	cr_assert_eq(trial_told.events, 1);
	cr_assert_str_eq(trial_told.event[0].text, "md\ntrial\nvictim\n?\n0\nvalue");
	cr_assert_eq(trial_victim(41), 42);
	cr_assert_eq(trial_events(0), 1);
	cr_assert_eq(trial_last[0], 41);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_arr_eq((void *)trial_victim, before, sizeof before);
	cr_assert_eq(trial_victim(1), 2);
	cr_assert_eq(trial_events(0), 1);
}
