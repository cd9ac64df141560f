/* SPDX-License-Identifier: MIT */
#include "trace/frequent.h"

#include <criterion/criterion.h>

Test(frequent, few_keys_are_counted_exactly)
{
	struct frequent frequent = { 0 };

	for (uint64_t i = 0; i < FREQUENT_MAX; i++)
		for (uint64_t j = 0; j <= i; j++)
			cr_assert_not_null(frequent_add(&frequent, i / 2, (uint32_t)i % 2));
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

Test(frequent, a_frequent_key_is_kept_among_ever_new_ones)
{
	struct frequent frequent = { 0 };
	const struct frequent_entry *found;

	for (uint64_t i = 0; i < 100000; i++)
		cr_assert_not_null(
			frequent_add(&frequent, i % (FREQUENT_MAX / 2) ? 1000 + i : 5, 0));
	frequent_sort(&frequent);
	cr_assert_eq(frequent.count, FREQUENT_MAX);
	cr_assert_eq(frequent.total, 100000);
	found = &frequent.all[0];
	cr_expect_eq(found->value, 5);
	cr_expect_geq(found->count, 100000 / (FREQUENT_MAX / 2));
	cr_expect_leq(frequent_least(found), 100000 / (FREQUENT_MAX / 2));
	for (size_t i = 1; i < frequent.count; i++)
		cr_expect_eq(frequent_least(&frequent.all[i]), 1, "no more than it was added");
	frequent_release(&frequent);
}
