/* SPDX-License-Identifier: MIT */
/* A watch's conditions: values in, whether they hold out. */
#include "base/condition.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static uint64_t f32(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static uint64_t f64(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

#define U64(value) UINT64_C(value)
#define MINUS(value) (-UINT64_C(value))

/* ---- orders ---- */

/* Whether `now` of so many bytes is less than, equal to, greater than the operand. */
static const struct order {
	const char *name;
	uint8_t as, bytes, bit, bits;
	uint64_t now, operand;
	int8_t order;
} orders[] = {
	{ "u8", WATCH_AS_UNSIGNED, 1, 0, 0, 0xff, 1, 1 },
	{ "i8", WATCH_AS_SIGNED, 1, 0, 0, 0xff, 1, -1 },
	{ "i8, equal", WATCH_AS_SIGNED, 1, 0, 0, 0xff, MINUS(1), 0 },
	{ "u16", WATCH_AS_UNSIGNED, 2, 0, 0, 0x8000, 0x7fff, 1 },
	{ "i16", WATCH_AS_SIGNED, 2, 0, 0, 0x8000, 0x7fff, -1 },
	{ "i32", WATCH_AS_SIGNED, 4, 0, 0, 0x80000000, MINUS(0x80000000), 0 },
	{ "u64", WATCH_AS_UNSIGNED, 8, 0, 0, U64(1) << 63, U64(1), 1 },
	{ "i64", WATCH_AS_SIGNED, 8, 0, 0, U64(1) << 63, U64(1), -1 },
	{ "i64, far apart", WATCH_AS_SIGNED, 8, 0, 0, INT64_MAX, U64(1) << 63, 1 },
	{ "bits 4 to 6, unsigned", WATCH_AS_UNSIGNED, 1, 4, 3, 0xdf, 5, 0 },
	{ "bits 4 to 6, signed", WATCH_AS_SIGNED, 1, 4, 3, 0xdf, MINUS(3), 0 },
	{ "the lowest bit", WATCH_AS_UNSIGNED, 4, 0, 1, 0xfffffffe, 0, 0 },
	{ "the highest bit, signed", WATCH_AS_SIGNED, 8, 63, 1, U64(1) << 63, MINUS(1), 0 },
	{ "all bits", WATCH_AS_UNSIGNED, 8, 0, 64, U64(1) << 63, U64(1) << 63, 0 },
};

static int holds(const struct order *order, uint8_t by)
{
	struct watch_condition condition = { .of = WATCH_OF_NEW,
					     .by = by,
					     .as = order->as,
					     .bit = order->bit,
					     .bits = order->bits,
					     .operand = order->operand };

	cr_assert(condition_is_sound(&condition, order->bytes), "%s, %u", order->name, by);
	return condition_holds(&condition, ~order->now, order->now, order->bytes, 1);
}

static void check_order(const struct order *order)
{
	cr_expect_eq(holds(order, WATCH_BY_EQUAL), order->order == 0, "%s", order->name);
	cr_expect_eq(holds(order, WATCH_BY_UNEQUAL), order->order != 0, "%s", order->name);
	cr_expect_eq(holds(order, WATCH_BY_LESS), order->order == -1, "%s", order->name);
	cr_expect_eq(holds(order, WATCH_BY_LESS_EQUAL), order->order == -1 || order->order == 0,
		     "%s", order->name);
	cr_expect_eq(holds(order, WATCH_BY_GREATER), order->order == 1, "%s", order->name);
	cr_expect_eq(holds(order, WATCH_BY_GREATER_EQUAL), order->order == 1 || order->order == 0,
		     "%s", order->name);
}

Test(condition, integers_and_bit_fields_have_their_order)
{
	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
		check_order(&orders[i]);
}

/* As C compares them: a NaN is neither less nor equal nor greater, and -0.0 is 0.0. */
Test(condition, floats_have_the_order_of_c)
{
	static const double values[] = { -INFINITY, -2.5, -1e-310, -0.0,     0.0,
					 1e-310,    1,	  2.5,	   INFINITY, NAN };
	const size_t count = sizeof(values) / sizeof(values[0]);

	for (size_t i = 0; i < count * count; i++) {
		double a = values[i / count], b = values[i % count];
		float c = (float)a, d = (float)b;
		struct order wide = { "f64", WATCH_AS_F64, 8, 0, 0, f64(a), f64(b), 2 };
		struct order narrow = { "f32", WATCH_AS_F32, 4, 0, 0, f32(c), f32(d), 2 };

		if (a <= b || a >= b)
			wide.order = (int8_t)((a > b) - (a < b));
		if (c <= d || c >= d)
			narrow.order = (int8_t)((c > d) - (c < d));
		check_order(&wide);
		check_order(&narrow);
	}
}

/* ---- what else is asked for ---- */

Test(condition, bits_of_the_operand_are_looked_for)
{
	struct watch_condition condition = {
		.of = WATCH_OF_NEW, .by = WATCH_BY_BITS, .as = WATCH_AS_UNSIGNED, .operand = 6
	};

	cr_assert(condition_holds(&condition, 0, 4, 4, 1));
	cr_assert_not(condition_holds(&condition, 6, 9, 4, 1));
	condition.bit = 4;
	condition.bits = 3;
	cr_assert(condition_holds(&condition, 0, 0x20, 4, 1));
	cr_assert_not(condition_holds(&condition, 0, 0x86, 4, 1));
}

Test(condition, old_value_is_asked_for_alone)
{
	struct watch_condition condition = {
		.of = WATCH_OF_OLD, .by = WATCH_BY_EQUAL, .as = WATCH_AS_UNSIGNED, .operand = 3
	};

	cr_assert(condition_holds(&condition, 3, 4, 8, 1));
	cr_assert_not(condition_holds(&condition, 4, 3, 8, 1));
}

Test(condition, change_of_a_bit_field_is_of_its_bits_alone)
{
	struct watch_condition condition = { .of = WATCH_OF_CHANGE };

	cr_assert(condition_holds(&condition, 1, 2, 8, 1));
	cr_assert_not(condition_holds(&condition, 2, 2, 8, 1));
	condition.bit = 4;
	condition.bits = 4;
	cr_assert_not(condition_holds(&condition, 0x105, 0x20f, 8, 1));
	cr_assert(condition_holds(&condition, 0x105, 0x115, 8, 1));
}

Test(condition, thread_is_or_is_not_the_one)
{
	struct watch_condition condition = { .of = WATCH_OF_TID,
					     .by = WATCH_BY_EQUAL,
					     .operand = 77 };

	cr_assert(condition_holds(&condition, 0, 0, 8, 77));
	cr_assert_not(condition_holds(&condition, 0, 0, 8, 78));
	condition.by = WATCH_BY_UNEQUAL;
	cr_assert_not(condition_holds(&condition, 0, 0, 8, 77));
	cr_assert(condition_holds(&condition, 0, 0, 8, 76));
}

Test(condition, none_always_holds)
{
	struct watch_condition condition = { .of = 0 };

	cr_assert(condition_holds(&condition, 1, 1, 8, 1));
}

/* ---- what makes no sense ---- */

static const struct {
	const char *name;
	struct watch_condition condition;
	unsigned int bytes;
} unsound[] = {
	{ "of nothing known", { .of = WATCH_OF_TID + 1 }, 8 },
	{ "a change past the value", { .of = WATCH_OF_CHANGE, .bit = 30, .bits = 3 }, 4 },
	{ "a change at a bit, of none", { .of = WATCH_OF_CHANGE, .bit = 3 }, 4 },
	{ "a thread that is less", { .of = WATCH_OF_TID, .by = WATCH_BY_LESS }, 8 },
	{ "no relation", { .of = WATCH_OF_NEW, .as = WATCH_AS_SIGNED }, 8 },
	{ "no type", { .of = WATCH_OF_NEW, .by = WATCH_BY_LESS }, 8 },
	{ "past the value",
	  { .of = WATCH_OF_NEW, .by = 1, .as = WATCH_AS_SIGNED, .bit = 1, .bits = 8 },
	  1 },
	{ "at a bit, of none",
	  { .of = WATCH_OF_OLD, .by = 1, .as = WATCH_AS_SIGNED, .bit = 64 },
	  8 },
	{ "half a double", { .of = WATCH_OF_NEW, .by = 1, .as = WATCH_AS_F64 }, 4 },
	{ "a float of eight bytes", { .of = WATCH_OF_NEW, .by = 1, .as = WATCH_AS_F32 }, 8 },
	{ "bits of a float", { .of = WATCH_OF_NEW, .by = WATCH_BY_BITS, .as = WATCH_AS_F32 }, 4 },
	{ "a float in bits", { .of = WATCH_OF_NEW, .by = 1, .as = WATCH_AS_F64, .bits = 8 }, 8 },
};

Test(condition, nonsense_is_not_sound)
{
	for (size_t i = 0; i < sizeof(unsound) / sizeof(unsound[0]); i++)
		cr_expect_not(condition_is_sound(&unsound[i].condition, unsound[i].bytes), "%s",
			      unsound[i].name);
}

/* ---- values that are not exact ---- */

Test(condition, uncertain_is_the_value_that_is_asked_for)
{
	static const struct {
		uint8_t of;
		uint16_t how;
		int is_uncertain;
	} cases[] = {
		{ WATCH_OF_NEW, WATCH_NEW_EXACT, 0 },
		{ WATCH_OF_NEW, WATCH_NEW_EXACT | WATCH_OLD_UNKNOWN, 0 },
		{ WATCH_OF_NEW, WATCH_OLD_EXACT, 1 },
		{ WATCH_OF_OLD, WATCH_OLD_EXACT, 0 },
		{ WATCH_OF_OLD, WATCH_NEW_EXACT | WATCH_OLD_UNKNOWN, 1 },
		{ WATCH_OF_OLD, WATCH_NEW_EXACT | WATCH_OLD_UNCERTAIN, 1 },
		{ WATCH_OF_CHANGE, WATCH_NEW_EXACT, 0 },
		{ WATCH_OF_CHANGE, WATCH_OLD_EXACT, 1 },
		{ WATCH_OF_CHANGE, WATCH_NEW_EXACT | WATCH_OLD_UNCERTAIN, 1 },
		{ WATCH_OF_TID, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct watch_condition condition = { .of = cases[i].of };

		cr_expect_eq(condition_is_uncertain(&condition, cases[i].how),
			     cases[i].is_uncertain, "%zu", i);
	}
}
