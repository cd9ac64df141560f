/* SPDX-License-Identifier: MIT */
/*
 * Functions that jump through tables, compiled in several ways for sweep_test.c. Each case records
 * where it begins as a number that is no address: the distance from its own field.
 */
#define CASE(n, work)                                                                              \
	case n:                                                                                    \
		__asm__ volatile(                                                                  \
			"1:\n\t.pushsection cases, \"a\"\n\t.long 1b - .\n\t.popsection");         \
		work;                                                                              \
		break

int sweep_switched(int which, int value);
int sweep_switched_twice(int which, int value);
int sweep_gone_to(const unsigned char *code, int value);

int sweep_switched(int which, int value)
{
	switch (which) {
		CASE(0, value += 3);
		CASE(1, value *= 7);
		CASE(2, value ^= 0x55);
		CASE(3, value -= which);
		CASE(5, value <<= 2);
		CASE(6, value = ~value);
		CASE(7, value /= 3);
		CASE(9, value |= 9);
	}
	return value;
}

int sweep_switched_twice(int which, int value)
{
	for (int i = 0; i < value; i++) {
		switch (which & 7) {
			CASE(0, value += 3);
			CASE(1, value *= 7);
			CASE(2, which ^= 0x55);
			CASE(3, value -= which);
			CASE(4, which++);
			CASE(5, value--);
		}
		switch (value) {
			CASE(10, value += 3);
			CASE(11, value *= 7);
			CASE(12, value ^= 0x55);
			CASE(13, value -= which);
			CASE(15, which <<= 2);
			CASE(16, value = ~value);
			CASE(17, which /= 3);
		}
	}
	return value + which;
}

int sweep_gone_to(const unsigned char *code, int value)
{
	static const void *const ways[] = { &&add, &&shift, &&negate, &&end };

	goto *ways[*code++ & 3];
add:
	__asm__ volatile("1:\n\t.pushsection cases, \"a\"\n\t.long 1b - .\n\t.popsection");
	value += *code;
	goto *ways[*code++ & 3];
shift:
	__asm__ volatile("1:\n\t.pushsection cases, \"a\"\n\t.long 1b - .\n\t.popsection");
	value <<= 1;
	goto *ways[*code++ & 3];
negate:
	__asm__ volatile("1:\n\t.pushsection cases, \"a\"\n\t.long 1b - .\n\t.popsection");
	value = -value;
	goto *ways[*code++ & 3];
end:
	return value;
}
