/* SPDX-License-Identifier: MIT */
#include "base/slots.h"

#include <criterion/criterion.h>

#define COUNT 5000u
#define HASHES 700u /* some elements have the same, and all are in one part of the table */

Test(slots, find_after_growth_or_replacement_returns_each_element_once)
{
	struct slots slots = { 0 };
	unsigned int replaced = 0;
	uint32_t found;

	for (uint32_t i = 0; i < COUNT; i++) {
		cr_assert_eq(slots_fit(&slots), 0);
		slots_add(&slots, UINT32_MAX - i % HASHES, i);
	}
	cr_expect_eq(slots.count, COUNT);
	for (uint32_t hash = 0; hash < HASHES; hash++) {
		unsigned int count = 0;

		for (uint64_t at = UINT32_MAX - hash;
		     slots_next(&slots, UINT32_MAX - hash, &at, &found); count++)
			cr_assert_eq(found % HASHES, hash);
		cr_assert_eq(count, (COUNT - hash + HASHES - 1) / HASHES);
	}
	cr_expect_not(slots_next(&slots, HASHES, &(uint64_t){ HASHES }, &found));
	slots_replace(&slots, UINT32_MAX - 3, 3 + HASHES, COUNT);
	cr_expect_eq(slots.count, COUNT);
	for (uint64_t at = UINT32_MAX - 3; slots_next(&slots, UINT32_MAX - 3, &at, &found);) {
		cr_expect_neq(found, 3 + HASHES);
		replaced += found == COUNT;
	}
	cr_expect_eq(replaced, 1);
	free(slots.all);
}
