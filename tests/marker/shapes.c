/* SPDX-License-Identifier: MIT */
/* Markers in all the shapes that code takes: copies made by the compiler must each count. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#if defined(__GNUC__) && !defined(__clang__)
#define UNROLL _Pragma("GCC unroll 4")
#define NOIPA __attribute__((noipa))
#else
#define UNROLL /* clang 14 never unrolls over an asm goto */
#define NOIPA __attribute__((noinline))
#endif

/* Some code around a marker: keeps many values in registers across it. */
KEEP static unsigned int loop(unsigned int count)
{
	unsigned int a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8;
	double x = 1, y = 2, z = 3;

	for (unsigned int i = 0; i < count; i++) {
		a += b, b ^= c, c += d, d ^= e, e += f, f ^= g, g += h, h ^= a + i;
		x += y, y = z + i, z = x - y;
		WAYMARK(shape, loop, i, a, x);
	}
	return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h ^ (unsigned int)(int)(x + y + z);
}

KEEP static unsigned int loop_plain(unsigned int count)
{
	unsigned int a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8;
	double x = 1, y = 2, z = 3;

	for (unsigned int i = 0; i < count; i++) {
		a += b, b ^= c, c += d, d ^= e, e += f, f ^= g, g += h, h ^= a + i;
		x += y, y = z + i, z = x - y;
	}
	return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h ^ (unsigned int)(int)(x + y + z);
}

KEEP static int unrolled(const int *numbers, int count)
{
	int sum = 0;

	UNROLL
	for (int i = 0; i < count; i++) {
		sum += numbers[i];
		WAYMARK(shape, unrolled, sum);
	}
	return sum;
}

KEEP static int fully_unrolled(void)
{
	int sum = 0;

	for (int i = 0; i < 3; i++) {
		WAYMARK(shape, fully_unrolled, i);
		sum += once(i);
	}
	return sum;
}

KEEP static int switched(int value)
{
	switch (value) {
	case 0:
		WAYMARK(shape, arm, value);
		return 1;
	case 1:
		WAYMARK(shape, arm, value);
		/* fall through */
	case 2:
		WAYMARK(shape, arm, value);
		break;
	default:
		WAYMARK(shape, other, value);
	}
	return value;
}

/* Called with a constant, so that ipa-cp may clone it; never inlined. */
KEEP static int cloned(int value, int mode)
{
	if (mode)
		WAYMARK(shape, cloned, value, mode);
	for (int i = 0; i < value; i++)
		WAYMARK(shape, cloned_loop, i);
	return value * mode;
}

NOIPA static int not_cloned(int value)
{
	WAYMARK(shape, not_cloned, value);
	return value;
}

KEEP static int recursive(int depth)
{
	WAYMARK(shape, recursive, depth);
	return depth ? recursive(depth - 1) + 1 : 0;
}

static inline __attribute__((always_inline)) int inlined(int value)
{
	WAYMARK(shape, inlined, value);
	return value;
}

__attribute__((cold)) KEEP static int cold(int value)
{
	WAYMARK(shape, cold, value);
	return value + 1;
}

KEEP static int branches(int value)
{
	if (__builtin_expect(value > 3, 0))
		WAYMARK(shape, unlikely, value);
	else
		WAYMARK(shape, likely, value);
	if (value)
		for (int i = 0; i < 2; i++)
			WAYMARK(shape, bare_loop);
	/* clang-format off */
	WAYMARK(shape, line, value); WAYMARK(shape, line, value + 1); WAYMARK(shape, line_other);
	/* clang-format on */
	return value;
}

/* The contents of a leaf function's red zone must survive an armed marker. */
KEEP static int red_zone(int value)
{
	volatile int zone[24];
	int sum = 0;

	for (int i = 0; i < 24; i++)
		zone[i] = value + i;
	WAYMARK(shape, red_zone, value);
	for (int i = 0; i < 24; i++)
		sum += zone[i];
	return sum;
}

KEEP static int blocks(int value)
{
	int ran = 0;

	WAYMARK_IF(shape, block) ran = value;
	WAYMARK_IF(shape, block_else)
	{
		ran += once(value);
	}
	else
	{
		ran--;
	}
	while (value-- > 0)
		WAYMARK_IF(shape, block_break) break;
	return ran * 100 + value;
}

KEEP static int spans(int value)
{
	WAYMARK_BEGIN(shape, span, value);
	value += 2;
	WAYMARK_END(shape, span);
	WAYMARK_BEGIN(shape, span, value);
	WAYMARK_END(shape, span);
	return value;
}

KEEP static int scopes(int way)
{
	WAYMARK_SCOPE(shape, scope, way);
	for (int i = 0; i < 3; i++) {
		WAYMARK_SCOPE(shape, inner, i);
		if (way == 1)
			break;
		if (way == 2)
			continue;
		if (way == 3)
			goto out;
		if (way == 4)
			return way;
	}
out:
	/* clang-format off */
	{ WAYMARK_SCOPE(shape, line_a); WAYMARK_SCOPE(shape, line_b); }
	/* clang-format on */
	return way;
}

static void cleaned(int *value)
{
	WAYMARK(shape, cleaned, *value);
}

/* Markers on both sides of variables that may not be jumped over. */
KEEP static int guarded(int value)
{
	WAYMARK(shape, guarded, value);
	for (int i = 0; i < 2; i++) {
		int guard __attribute__((cleanup(cleaned), unused)) = i;

		WAYMARK(shape, guarded, i);
		WAYMARK_IF(shape, guarded) value++;
		if (i) {
			int second __attribute__((cleanup(cleaned), unused)) = i;

			WAYMARK(shape, guarded, second);
		}
	}
#ifndef __cplusplus
	int room[value + 1];

	room[value] = value;
	WAYMARK(shape, guarded, room[value]);
#else
	WAYMARK(shape, guarded, value);
#endif
	return value;
}

static volatile sig_atomic_t handled;

static void on_signal(int signal_number)
{
	WAYMARK(shape, handler, signal_number);
	handled = 1;
}

KEEP static void handlers(void)
{
	struct sigaction action, old;

	memset(&action, 0, sizeof action);
	action.sa_handler = on_signal;
	sigaction(SIGUSR1, &action, &old);
	handled = 0;
	raise(SIGUSR1);
	sigaction(SIGUSR1, &old, 0);
	CHECK(handled == 1);
}

/* Names are taken as written, macros or not. */
#define macro_name replaced
KEEP static void names(void)
{
	WAYMARK(shape, macro_name, 1);
	WAYMARK(unix, linux, 1);
	WAYMARK(int, for, 1);
}

/* Never called: its section, and the site's entry with it, may be dropped by --gc-sections. */
void shapes_dead(int value);
void shapes_dead(int value)
{
	WAYMARK(shape, dead, value);
}

static void run_calls(int (*far_cold)(int))
{
	CHECK(switched(0) + switched(1) + switched(2) + switched(3) == 7);
	CHECK(cloned(2, 3) + cloned(3, 1) + cloned(2, 0) == 9);
	CHECK(not_cloned(3) == 3);
	CHECK(recursive(4) == 4);
	CHECK(inlined(1) + inlined(2) + inlined(3) == 6);
	CHECK(far_cold(1) == 2);
	CHECK(branches(1) + branches(9) == 10);
	CHECK(red_zone(1) == 24 + 276);
	CHECK(spans(1) == 3);
	for (int way = 0; way < 5; way++)
		CHECK(scopes(way) == way);
	CHECK(guarded(1) == (armed ? 3 : 1));
	handlers();
	names();
	CHECK_HITS('m', shape, guarded, 5);
	CHECK_HITS('i', shape, guarded, 2);
	CHECK_HITS('m', shape, cleaned, 3);
	CHECK_HITS('m', shape, arm, 4);
	CHECK_HITS('m', shape, other, 1);
	CHECK_HITS('m', shape, cloned, 2);
	CHECK_HITS('m', shape, cloned_loop, 7);
	CHECK_HITS('m', shape, not_cloned, 1);
	CHECK_HITS('m', shape, recursive, 5);
	CHECK_HITS('m', shape, inlined, 3);
	CHECK(arm_seen('m', "shape", "inlined")->sites >= 3);
	CHECK_HITS('m', shape, cold, 1);
	CHECK_HITS('m', shape, unlikely, 1);
	CHECK_HITS('m', shape, likely, 1);
	CHECK_HITS('m', shape, bare_loop, 4);
	CHECK_HITS('m', shape, line, 4);
	CHECK_HITS('m', shape, line_other, 2);
	CHECK_HITS('m', shape, red_zone, 1);
	CHECK_HITS('b', shape, span, 2);
	CHECK_HITS('e', shape, span, 2);
	CHECK_HITS('b', shape, scope, 5);
	CHECK_HITS('e', shape, scope, 5);
	CHECK_HITS('b', shape, inner, 3 + 1 + 3 + 1 + 1);
	CHECK_HITS('e', shape, inner, 3 + 1 + 3 + 1 + 1);
	CHECK_HITS('e', shape, line_a, 4);
	CHECK_HITS('e', shape, line_b, 4);
	CHECK_HITS('m', shape, handler, 1);
	CHECK_HITS('m', shape, macro_name, 1);
	CHECK_HITS('m', unix, linux, 1);
	CHECK_HITS('m', int, for, 1);
}

void shapes_run(void)
{
	static const int numbers[10] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
	volatile unsigned int count = 13;
	int (*volatile far_cold)(int) = cold;

	arm_reset();
	evaluated = 0;
	CHECK(loop(count) == loop_plain(count));
	CHECK(unrolled(numbers, (int)count - 3) == 55);
	CHECK(fully_unrolled() == 3);
	CHECK_HITS('m', shape, loop, 13);
	CHECK_HITS('m', shape, unrolled, 10);
	CHECK_HITS('m', shape, fully_unrolled, 3);
	CHECK(blocks(3) == (armed ? 602 : -101));
	CHECK_HITS('i', shape, block, 1);
	CHECK_HITS('i', shape, block_else, 1);
	CHECK_HITS('i', shape, block_break, 1);
	CHECK(evaluated == (armed ? 4U : 3U));
	run_calls(far_cold);
}
