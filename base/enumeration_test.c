/* SPDX-License-Identifier: MIT */
#include "base/enumeration.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <waymark/marker.h>

static struct enumeration_pool pool;

static const struct enumeration *made(struct enumeration_draft *draft)
{
	const struct enumeration *of = enumeration_pool_make(&pool, draft);

	enumeration_draft_release(draft);
	return of;
}

Test(enumeration, name_of_equal_values_is_the_first_and_of_combined_flags_none)
{
	struct enumeration_draft draft = { .type = WM_TYPE_U32 };
	const struct enumeration *of;

	enumeration_draft_add(&draft, 4, "WRITE");
	enumeration_draft_add(&draft, 1, "READ");
	enumeration_draft_add(&draft, 4, "LAST");
	of = made(&draft);
	cr_assert_eq(of->count, 2);
	cr_assert_str_eq(enumeration_name(of, 4), "WRITE");
	cr_assert_str_eq(enumeration_name(of, 1), "READ");
	cr_assert_null(enumeration_name(of, 5));
	cr_assert_null(enumeration_name(of, 0));
	enumeration_pool_release(&pool);
}

Test(enumeration, add_bad_name_or_value_is_ignored)
{
	struct enumeration_draft draft = { .type = WM_TYPE_I8 };
	const struct enumeration *of;

	enumeration_draft_add(&draft, (uint64_t)-128, "LOW");
	enumeration_draft_add(&draft, 127, "HIGH");
	enumeration_draft_add(&draft, 128, "OVER");
	enumeration_draft_add(&draft, (uint64_t)-129, "UNDER");
	enumeration_draft_add(&draft, 1, "7");
	enumeration_draft_add(&draft, 2, "");
	enumeration_draft_add(&draft, 3, "A, B");
	enumeration_draft_add(&draft, 4, "\033[31m");
	enumeration_draft_add(&draft, 5, "gr\xc3\xbcn");
	of = made(&draft);
	cr_assert_eq(of->count, 3);
	cr_assert_str_eq(enumeration_name(of, (uint64_t)-128), "LOW");
	cr_assert_str_eq(enumeration_name(of, 127), "HIGH");
	cr_assert_str_eq(enumeration_name(of, 5), "gr\xc3\xbcn");
	enumeration_pool_release(&pool);
}

Test(enumeration, pool_equal_content_is_kept_once)
{
	struct enumeration_pool other = { 0 };
	const struct enumeration *all[4];

	for (unsigned int i = 0; i < 4; i++) {
		struct enumeration_draft draft = { .type = i == 3 ? WM_TYPE_I32 : WM_TYPE_U32 };

		enumeration_draft_add(&draft, i == 2, "ONE");
		all[i] = made(&draft);
	}
	cr_assert_eq(all[0], all[1]);
	cr_assert_neq(all[0], all[2]);
	cr_assert_neq(all[0], all[3]);
	cr_assert_eq(pool.count, 3);
	for (unsigned int i = 0; i < 3; i++)
		cr_assert_eq(pool.all[i]->number, i);
	cr_assert(!enumeration_is_equal(all[0], all[2]));
	cr_assert(enumeration_is_equal(enumeration_pool_copy(&other, all[2]), all[2]));
	cr_assert_eq(other.all[0]->number, 0);
	enumeration_pool_release(&other);
	enumeration_pool_release(&pool);
}

Test(enumeration, make_too_large_returns_null)
{
	static char longest[ENUMERATION_NAMES_MAX];
	struct enumeration_draft draft = { .type = WM_TYPE_U64 };
	char name[16];

	for (unsigned int i = 0; i <= ENUMERATION_COUNT_MAX; i++) {
		snprintf(name, sizeof(name), "N%u", i);
		enumeration_draft_add(&draft, i, name);
	}
	cr_assert_null(made(&draft));
	memset(longest, 'x', sizeof(longest) - 1);
	draft.type = WM_TYPE_U64;
	enumeration_draft_add(&draft, 1, longest);
	cr_assert_not_null(made(&draft));
	draft.type = WM_TYPE_U64;
	enumeration_draft_add(&draft, 1, longest);
	enumeration_draft_add(&draft, 2, "y");
	cr_assert_null(made(&draft));
	for (uint64_t i = 2; i < 1000; i++) { /* the pool's limit */
		draft.type = WM_TYPE_U64;
		enumeration_draft_add(&draft, i, longest);
		made(&draft);
	}
	cr_assert_leq(pool.bytes, ENUMERATION_POOL_MAX);
	cr_assert_geq(pool.bytes, ENUMERATION_POOL_MAX - 2 * ENUMERATION_NAMES_MAX);
	enumeration_pool_release(&pool);
}

Test(enumeration, name_ends_of_64_bits_are_found)
{
	struct enumeration_draft draft = { .type = WM_TYPE_I64 };
	const struct enumeration *of;

	enumeration_draft_add(&draft, (uint64_t)INT64_MIN, "MIN");
	enumeration_draft_add(&draft, INT64_MAX, "MAX");
	enumeration_draft_add(&draft, UINT64_MAX, "MINUS_ONE");
	of = made(&draft);
	cr_assert_str_eq(enumeration_name(of, (uint64_t)INT64_MIN), "MIN");
	cr_assert_str_eq(enumeration_name(of, INT64_MAX), "MAX");
	cr_assert_str_eq(enumeration_name(of, UINT64_MAX), "MINUS_ONE");
	enumeration_pool_release(&pool);
}

static const char *text_of(const struct enumeration *of, uint64_t value)
{
	static char text[ENUMERATION_TEXT_MAX];
	const char *found = enumeration_text(of, value, text);

	return found ? found : "(number)";
}

Test(enumeration, text_names_number_and_flags)
{
	struct enumeration_draft draft = { .type = WM_TYPE_I32, .flags = ~UINT64_C(3) };
	const struct enumeration *of;

	enumeration_draft_add(&draft, 0, "READ");
	enumeration_draft_add(&draft, 1, "WRITE");
	enumeration_draft_add(&draft, 0x30, "BOTH");
	enumeration_draft_add(&draft, 0x10, "ONE");
	enumeration_draft_add(&draft, 0x4, "FOUR");
	enumeration_draft_add(&draft, 0x4, "AGAIN");
	enumeration_draft_add(&draft, 0, "NOTHING");
	of = made(&draft);
	cr_assert_eq(of->count, 5);
	cr_assert_str_eq(text_of(of, 0), "READ");
	cr_assert_str_eq(text_of(of, 0x15), "WRITE|ONE|FOUR");
	cr_assert_str_eq(text_of(of, 0x70), "READ|BOTH|0x40");
	cr_assert_str_eq(text_of(of, 0x7), "FOUR|0x3");
	cr_assert_str_eq(text_of(of, 3), "(number)");
	enumeration_pool_release(&pool);
}

Test(enumeration, text_of_flags_alone_names_0_only_where_no_flag_is_set)
{
	struct enumeration_draft draft = { .type = WM_TYPE_U32, .flags = UINT64_MAX };
	const struct enumeration *of, *copy;
	struct enumeration_pool other = { 0 };

	enumeration_draft_add(&draft, 0, "NONE");
	enumeration_draft_add(&draft, 4, "EXEC");
	enumeration_draft_add(&draft, 1, "READ");
	of = made(&draft);
	copy = enumeration_pool_copy(&other, of);
	cr_assert_str_eq(text_of(copy, 0), "NONE");
	cr_assert_str_eq(text_of(copy, 5), "EXEC|READ");
	cr_assert_str_eq(text_of(copy, 8), "(number)");
	cr_assert_str_eq(text_of(copy, 9), "READ|0x8");
	enumeration_pool_release(&other);
	enumeration_pool_release(&pool);
}

Test(enumeration, text_too_long_returns_null)
{
	struct enumeration_draft draft = { .type = WM_TYPE_U64, .flags = UINT64_MAX };
	const struct enumeration *of;
	char name[32];

	for (unsigned int i = 0; i < 64; i++) {
		snprintf(name, sizeof(name), "FLAG_OF_NUMBER_%u", i);
		enumeration_draft_add(&draft, UINT64_C(1) << i, name);
	}
	of = made(&draft);
	cr_assert_str_eq(text_of(of, 1), "FLAG_OF_NUMBER_0");
	cr_assert_str_eq(text_of(of, UINT64_MAX), "(number)");
	enumeration_pool_release(&pool);
}
