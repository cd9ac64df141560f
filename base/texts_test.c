/* SPDX-License-Identifier: MIT */
#include "base/texts.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

Test(texts, keep_returns_one_copy_of_each)
{
	struct texts texts = { 0 };
	const char *first = texts_keep(&texts, "one and more", 3);

	cr_assert_str_eq(first, "one");
	cr_expect_eq(texts_keep(&texts, "one", 3), first);
	cr_expect_neq(texts_keep(&texts, "one ", 4), first);
	cr_expect_str_eq(texts_keep(&texts, "", 0), "");
	cr_expect_eq(texts.count, 3);
	for (int i = 0; i < 5000; i++) {
		char name[16];

		snprintf(name, sizeof(name), "%d", i);
		cr_assert_str_eq(texts_keep(&texts, name, strlen(name)), name);
	}
	cr_expect_eq(texts.count, 5003);
	cr_expect_eq(texts_keep(&texts, "one", 3), first);
	texts.most = texts.count;
	cr_expect_null(texts_keep(&texts, "more", 4));
	cr_expect_eq(texts_keep(&texts, "one", 3), first);
	texts_release(&texts);
	cr_expect_eq(texts.count, 0);
}
