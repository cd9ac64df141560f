/* SPDX-License-Identifier: MIT */
#include "base/condition.h"
#include "base/predicate.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <waymark/marker.h>

static struct predicate integer(uint8_t by, uint64_t number, unsigned int more)
{
	struct predicate predicate = { .name = "rows",
				       .number = number,
				       .by = by,
				       .forms = (uint8_t)(PREDICATE_INTEGER | more) };
	return predicate;
}

static int holds(const struct predicate *predicate, uint8_t type, unsigned int bytes,
		 uint64_t value)
{
	struct watch_condition condition;

	cr_assert_eq(predicate_bind(predicate, type, &condition), 0);
	cr_assert(condition_is_sound(&condition, bytes));
	return condition_holds(&condition, 0, value, bytes, 0);
}

Test(predicate, integer_compares_as_its_type)
{
	struct predicate below_zero = integer(WATCH_BY_LESS, 0, 0);
	struct predicate many = integer(WATCH_BY_GREATER, 1 << 20, 0);
	struct predicate minus_one = integer(WATCH_BY_EQUAL, UINT64_MAX, PREDICATE_NEGATIVE);
	struct predicate hex = integer(WATCH_BY_EQUAL, 0xffffffff, PREDICATE_HEX);
	struct predicate bits = integer(WATCH_BY_BITS, 6, 0);

	cr_expect(holds(&below_zero, WM_TYPE_I32, 4, 0xffffffff));
	cr_expect_not(holds(&below_zero, WM_TYPE_U32, 4, 0xffffffff));
	cr_expect(holds(&many, WM_TYPE_U64, 8, (1 << 20) + 1));
	cr_expect_not(holds(&many, WM_TYPE_U64, 8, 1 << 20));
	cr_expect(holds(&minus_one, WM_TYPE_I8, 1, 0xff));
	cr_expect(holds(&hex, WM_TYPE_I32, 4, 0xffffffff));
	cr_expect(holds(&bits, WM_TYPE_I16, 2, 4));
	cr_expect_not(holds(&bits, WM_TYPE_I16, 2, 9));
}

Test(predicate, float_compares_in_its_width)
{
	float narrow = 1.5f, less = 1.25f;
	double wide = 1.5;
	struct predicate predicate = { .name = "x",
				       .by = WATCH_BY_GREATER_EQUAL,
				       .forms = PREDICATE_FLOAT };
	uint32_t bits = 0;
	uint64_t value;

	memcpy(&predicate.f32, &narrow, 4);
	memcpy(&predicate.f64, &wide, 8);
	memcpy(&bits, &less, 4);
	memcpy(&value, &wide, 8);
	cr_expect(holds(&predicate, WM_TYPE_F32, 4, predicate.f32));
	cr_expect_not(holds(&predicate, WM_TYPE_F32, 4, bits));
	cr_expect(holds(&predicate, WM_TYPE_F64, 8, value));
}

Test(predicate, type_without_such_a_value_is_refused)
{
	struct predicate negative = integer(WATCH_BY_EQUAL, UINT64_MAX, PREDICATE_NEGATIVE);
	struct predicate large = integer(WATCH_BY_EQUAL, 256, 0);
	struct predicate text = {
		.name = "q", .text = "a*", .by = WATCH_BY_EQUAL, .forms = PREDICATE_TEXT
	};
	struct watch_condition condition;

	cr_expect_eq(predicate_bind(&negative, WM_TYPE_U32, &condition), -ERANGE);
	cr_expect_eq(predicate_bind(&negative, WM_TYPE_PTR, &condition), -ERANGE);
	cr_expect_eq(predicate_bind(&large, WM_TYPE_U8, &condition), -ERANGE);
	cr_expect_eq(predicate_bind(&large, WM_TYPE_STR, &condition), -EINVAL);
	cr_expect_eq(predicate_bind(&large, WM_TYPE_BYTES, &condition), -EINVAL);
	cr_expect_eq(predicate_bind(&large, WM_TYPE_F64, &condition), -EINVAL);
	cr_expect_eq(predicate_bind(&text, WM_TYPE_I32, &condition), -EINVAL);
	cr_expect_eq(predicate_bind(&text, WM_TYPE_STR, &condition), 0);
	text.by = WATCH_BY_LESS;
	cr_expect_eq(predicate_bind(&text, WM_TYPE_STR, &condition), -EINVAL);
}

Test(predicate, field_is_found_by_its_clean_name)
{
	struct predicate predicate = integer(WATCH_BY_EQUAL, 0, 0);

	cr_expect_eq(predicate_field(predicate.name, predicate.field, "query, rows", 2), 1);
	cr_expect_eq(predicate_field(predicate.name, predicate.field, "WM_FIELD(rows, q->n), query",
				     2),
		     0);
	cr_expect_eq(predicate_field(predicate.name, predicate.field, "query, n", 2), -1);
	cr_expect_eq(predicate_field(predicate.name, predicate.field, "query, rows", 1), -1);
}

Test(predicate, nonsense_of_another_process_is_not_sound)
{
	struct predicate predicate = integer(WATCH_BY_EQUAL, 0, 0);

	cr_expect(predicate_is_sound(&predicate));
	predicate.by = WATCH_BY_BITS + 1;
	cr_expect_not(predicate_is_sound(&predicate));
	predicate = integer(0, 0, 0);
	cr_expect_not(predicate_is_sound(&predicate));
	predicate = integer(WATCH_BY_EQUAL, 0, PREDICATE_WORD);
	cr_expect_not(predicate_is_sound(&predicate));
	predicate = integer(WATCH_BY_EQUAL, 0, 0);
	memset(predicate.name, 'a', sizeof(predicate.name));
	cr_expect_not(predicate_is_sound(&predicate));
	predicate = integer(WATCH_BY_EQUAL, 0, 0);
	memset(predicate.text, 'a', sizeof(predicate.text));
	cr_expect_not(predicate_is_sound(&predicate));
	predicate = integer(WATCH_BY_EQUAL, 0, 0);
	predicate.name[0] = 0;
	cr_expect_not(predicate_is_sound(&predicate));
}
