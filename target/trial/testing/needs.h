/* SPDX-License-Identifier: MIT */
/*
 * For tests: NEEDS(trial) skips the test, with the trial's reason, on a machine where the mechanism
 * does not work.
 */
#ifndef TARGET_TRIAL_TESTING_NEEDS_H
#define TARGET_TRIAL_TESTING_NEEDS_H

#include "target/trial/trial.h"

#include <criterion/criterion.h>

#define NEEDS(trial)                                                                               \
	do {                                                                                       \
		struct trial_answer needs_answer;                                                  \
		char needs_text[512];                                                              \
                                                                                                   \
		trial_ask(trial, &needs_answer);                                                   \
		trial_reason(trial, &needs_answer, needs_text, sizeof(needs_text));                \
		if (needs_answer.state != TRIAL_WORKS)                                             \
			cr_skip_test("%s", needs_text);                                            \
	} while (0)

#endif
