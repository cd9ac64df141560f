/* SPDX-License-Identifier: MIT */
#include "base/condition.h"

#define F64_SIGN (UINT64_C(1) << 63)
#define F64_INFINITY UINT64_C(0x7ff0000000000000)
#define F32_SIGN (UINT64_C(1) << 31)
#define F32_INFINITY UINT64_C(0x7f800000)
#define NOT_COMPARABLE 2

/* A bit-field of the value, or all of it. */
static int is_part(const struct watch_condition *condition, unsigned int bytes)
{
	if (!condition->bits)
		return !condition->bit;
	return condition->bit + (unsigned int)condition->bits <= 8 * bytes;
}

int condition_is_sound(const struct watch_condition *condition, unsigned int bytes)
{
	if (condition->of < WATCH_OF_CHANGE || condition->of > WATCH_OF_TID)
		return 0;
	if (condition->of == WATCH_OF_CHANGE)
		return is_part(condition, bytes);
	if (condition->of == WATCH_OF_TID)
		return condition->by == WATCH_BY_EQUAL || condition->by == WATCH_BY_UNEQUAL;
	if (condition->by < WATCH_BY_EQUAL || condition->by > WATCH_BY_BITS ||
	    !is_part(condition, bytes))
		return 0;
	switch (condition->as) {
	case WATCH_AS_UNSIGNED:
	case WATCH_AS_SIGNED:
		return 1;
	case WATCH_AS_F32:
		return bytes == 4 && !condition->bits && condition->by != WATCH_BY_BITS;
	case WATCH_AS_F64:
		return bytes == 8 && !condition->bits && condition->by != WATCH_BY_BITS;
	default:
		return 0;
	}
}

/* An integer in the same order as the floating-point number; -0.0 is 0.0. 0, -1: it is a NaN. */
static int rank(uint64_t value, uint64_t sign, uint64_t infinity, int64_t *result)
{
	uint64_t size = value & (sign - 1);

	*result = value & sign ? -(int64_t)size : (int64_t)size;
	return size > infinity ? -1 : 0;
}

/* -1, 0, 1; NOT_COMPARABLE. */
static int compare(uint8_t as, uint64_t a, uint64_t b)
{
	int64_t first = (int64_t)a, second = (int64_t)b;

	if (as == WATCH_AS_UNSIGNED)
		return (a > b) - (a < b);
	if (as != WATCH_AS_SIGNED) {
		uint64_t sign = as == WATCH_AS_F64 ? F64_SIGN : F32_SIGN;
		uint64_t infinity = as == WATCH_AS_F64 ? F64_INFINITY : F32_INFINITY;

		if (rank(a, sign, infinity, &first) || rank(b, sign, infinity, &second))
			return NOT_COMPARABLE;
	}
	return (first > second) - (first < second);
}

/* The number that is in a value: of a bit-field, or all, widened as it is. */
static uint64_t number_of(const struct watch_condition *condition, uint64_t value,
			  unsigned int bytes)
{
	unsigned int bits = condition->bits ? condition->bits : 8 * bytes;

	value <<= 64 - condition->bit - bits;
	if (condition->as == WATCH_AS_SIGNED)
		return (uint64_t)((int64_t)value >> (64 - bits));
	return value >> (64 - bits);
}

static int is_so(uint8_t by, int order)
{
	switch (by) {
	case WATCH_BY_EQUAL:
		return order == 0;
	case WATCH_BY_UNEQUAL:
		return order != 0;
	case WATCH_BY_LESS:
		return order == -1;
	case WATCH_BY_LESS_EQUAL:
		return order == -1 || order == 0;
	case WATCH_BY_GREATER:
		return order == 1;
	default:
		return order == 1 || order == 0;
	}
}

int condition_holds(const struct watch_condition *condition, uint64_t old, uint64_t now,
		    unsigned int bytes, int32_t tid)
{
	uint64_t value;

	if (!condition->of)
		return 1;
	if (condition->of == WATCH_OF_CHANGE)
		return number_of(condition, old, bytes) != number_of(condition, now, bytes);
	if (condition->of == WATCH_OF_TID)
		return is_so(condition->by, tid != (int32_t)condition->operand);
	value = number_of(condition, condition->of == WATCH_OF_OLD ? old : now, bytes);
	if (condition->by == WATCH_BY_BITS)
		return (value & condition->operand) != 0;
	return is_so(condition->by, compare(condition->as, value, condition->operand));
}

int condition_is_uncertain(const struct watch_condition *condition, uint16_t how)
{
	int is_new = !(how & WATCH_NEW_EXACT);
	int is_old = (how & (WATCH_OLD_UNCERTAIN | WATCH_OLD_UNKNOWN)) != 0;

	switch (condition->of) {
	case WATCH_OF_CHANGE:
		return is_new || is_old;
	case WATCH_OF_NEW:
		return is_new;
	case WATCH_OF_OLD:
		return is_old;
	default:
		return 0;
	}
}
