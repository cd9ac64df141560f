/* SPDX-License-Identifier: MIT */
#include "base/sorted.h"

#include <criterion/criterion.h>

struct pair {
	uint32_t other;
	uint64_t number;
};

static const struct pair pairs[] = { { 9, 2 }, { 8, 4 }, { 7, 4 }, { 6, 4 }, { 5, UINT64_MAX } };

static size_t below(size_t count, uint64_t limit)
{
	return sorted_below(pairs, count, sizeof(pairs[0]), offsetof(struct pair, number), limit);
}

static size_t at_most(size_t count, uint64_t value)
{
	return sorted_at_most(pairs, count, sizeof(pairs[0]), offsetof(struct pair, number), value);
}

Test(sorted, equal_numbers_lie_behind_what_is_below_and_before_what_is_above)
{
	cr_assert_eq(below(5, 0), 0);
	cr_assert_eq(below(5, 2), 0);
	cr_assert_eq(at_most(5, 2), 1);
	cr_assert_eq(below(5, 4), 1);
	cr_assert_eq(at_most(5, 4), 4);
	cr_assert_eq(below(5, 5), 4);
}

Test(sorted, up_to_the_largest_there_is)
{
	cr_assert_eq(below(5, UINT64_MAX), 4);
	cr_assert_eq(at_most(5, UINT64_MAX), 5);
	cr_assert_eq(at_most(4, UINT64_MAX), 4);
}

Test(sorted, of_nothing_nothing_is_below)
{
	cr_assert_eq(sorted_below(NULL, 0, 8, 0, UINT64_MAX), 0);
	cr_assert_eq(sorted_at_most(NULL, 0, 8, 0, UINT64_MAX), 0);
}
