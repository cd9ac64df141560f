/* SPDX-License-Identifier: MIT */
#include "read/pass/frequent.h"

#include <criterion/criterion.h>

Test(frequent, few_keys_are_counted_exactly)
{
	struct frequent frequent = { 0 };

	for (uint64_t i = 0; i < FREQUENT_MAX; i++)
		for (uint64_t j = 0; j <= i; j++)
			cr_assert_not_null(frequent_add(&frequent, i / 2, (uint32_t)i % 2, 1));
	frequent_sort(&frequent);
	cr_assert_eq(frequent.count, FREQUENT_MAX);
	for (uint64_t i = 0; i < FREQUENT_MAX; i++) {
		cr_expect_eq(frequent_least(&frequent.all[i]), FREQUENT_MAX - i);
		cr_expect_eq(frequent.all[i].over, 0);
	}
	cr_expect_eq(frequent.all[0].value, (FREQUENT_MAX - 1) / 2);
	cr_expect_eq(frequent.all[0].of, 1);
	cr_expect_null(frequent_find(&frequent, FREQUENT_MAX, 0));
	frequent_release(&frequent);
}

#define KEYS (FREQUENT_MAX / 4)
#define ADDED 100000

Test(frequent, frequent_keys_are_kept_among_ever_new_ones)
{
	struct frequent frequent = { 0 };

	for (uint64_t i = 0; i < ADDED; i++) {
		uint64_t key = i % (FREQUENT_MAX / 2);

		cr_assert_not_null(frequent_add(&frequent, key < KEYS ? key : KEYS + i, 0, 1));
	}
	frequent_sort(&frequent);
	cr_assert_eq(frequent.count, FREQUENT_MAX);
	cr_assert_eq(frequent.total, ADDED);
	for (size_t i = 0; i < KEYS; i++) {
		cr_expect_lt(frequent.all[i].value, KEYS);
		cr_expect_geq(frequent.all[i].count, ADDED / (FREQUENT_MAX / 2));
		cr_expect_leq(frequent_least(&frequent.all[i]), ADDED / (FREQUENT_MAX / 2));
	}
	for (size_t i = KEYS; i < frequent.count; i++)
		cr_expect_eq(frequent_least(&frequent.all[i]), 1, "no more than it was added");
	frequent_release(&frequent);
}
