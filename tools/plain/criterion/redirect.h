/* SPDX-License-Identifier: MIT */
/* What a test writes to stderr, to be compared. */
#ifndef PLAIN_CRITERION_REDIRECT_H
#define PLAIN_CRITERION_REDIRECT_H

#include "tools/plain/criterion/criterion.h"

/* From here on it is kept; what a failed test says, and a sanitizer, goes where it went before. */
void cr_redirect_stderr(void);

/* All that was kept up to now, from the start. */
const char *plain_stderr(void);

#define cr_assert_stderr_eq_str(text, ...) cr_assert_str_eq(plain_stderr(), text, __VA_ARGS__)

#endif
