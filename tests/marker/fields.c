/* SPDX-License-Identifier: MIT */
/*
 * Every type of field: the type in the table, the bytes in the payload. Compiled as C and as C++.
 */
#include <stdbool.h>
#include <string.h>

#include "check.h"

enum plain { PLAIN_A = -3, PLAIN_B = 7 };
typedef unsigned long word_t;

struct bits {
	unsigned int low : 3;
	signed int middle : 7;
	unsigned long long wide : 40;
};

static struct seen *seen;

static void expect(const char *event, unsigned int times)
{
	seen = arm_seen('m', "field", event);
	CHECK(seen->sites >= 1);
	CHECK(seen->hits == (armed ? times : 0));
}

/* The one field has this type and these bytes. */
static void expect_bytes(const char *event, int type, const void *bytes, size_t count)
{
	expect(event, 1);
	CHECK(seen->types[0] == type);
	CHECK(seen->types[1] == 0);
	CHECK(seen->bytes == count);
	if (armed)
		CHECK(!memcmp(seen->payload, bytes, count));
}

static long long payload_int(size_t offset, size_t bytes)
{
	long long value = 0;

	memcpy(&value, seen->payload + offset, bytes);
	return value;
}

#define ONE(event, type, wm_type, value)                                                           \
	do {                                                                                       \
		type given = (type)(value);                                                        \
		WAYMARK(field, event, given);                                                      \
		expect_bytes(#event, wm_type, &given, sizeof given);                               \
		CHECK(!strcmp(seen->fields, "given"));                                             \
	} while (0)

KEEP static void integers(void)
{
	const volatile int qualified = 9;

	ONE(i8, signed char, WM_TYPE_I8, -128);
	ONE(u8, unsigned char, WM_TYPE_U8, 255);
	ONE(chr, char, WM_TYPE_CHAR, 'x');
	ONE(i16, short, WM_TYPE_I16, -32768);
	ONE(u16, unsigned short, WM_TYPE_U16, 65535);
	ONE(i32, int, WM_TYPE_I32, -2147483647 - 1);
	ONE(u32, unsigned int, WM_TYPE_U32, 4294967295U);
	ONE(i64, long, WM_TYPE_I64, -9223372036854775807L - 1);
	ONE(u64, unsigned long, WM_TYPE_U64, 18446744073709551615UL);
	ONE(ill, long long, WM_TYPE_I64, -2);
	ONE(ull, unsigned long long, WM_TYPE_U64, 0x8000000000000001ULL);
	ONE(named, word_t, WM_TYPE_U64, 3);
	ONE(boolean, bool, WM_TYPE_BOOL, true);
	WAYMARK(field, qualified, qualified);
	CHECK(arm_seen('m', "field", "qualified")->types[0] == WM_TYPE_I32);
}

KEEP static void floats(void)
{
	long double wide = 2.5L;
	double narrowed = 2.5;

	ONE(f32, float, WM_TYPE_F32, 1.25F);
	ONE(f64, double, WM_TYPE_F64, -0.1);
	WAYMARK(field, f80, wide);
	expect_bytes("f80", WM_TYPE_F64, &narrowed, sizeof narrowed);
}

KEEP static void pointers(void)
{
	int numbers[4] = { 1, 2, 3, 4 };
	const int *first = numbers;
	const void *nothing = 0;
	void (*function)(void) = pointers;
	struct bits *opaque = 0;

	ONE(ptr, int *, WM_TYPE_PTR, numbers);
	ONE(cptr, const void *, WM_TYPE_PTR, numbers);
	ONE(vptr, volatile int *, WM_TYPE_PTR, numbers);
	ONE(pptr, int *const *, WM_TYPE_PTR, &first);
	ONE(uchars, unsigned char *, WM_TYPE_PTR, numbers);
	WAYMARK(field, array, &numbers[0]);
	expect_bytes("array", WM_TYPE_PTR, &first, sizeof first);
	WAYMARK(field, parray, &numbers);
	expect_bytes("parray", WM_TYPE_PTR, &first, sizeof first);
	WAYMARK(field, function, pointers);
	expect_bytes("function", WM_TYPE_PTR, &function, sizeof function);
	WAYMARK(field, fptr, function);
	expect_bytes("fptr", WM_TYPE_PTR, &function, sizeof function);
	WAYMARK(field, opaque, opaque);
	expect_bytes("opaque", WM_TYPE_PTR, &nothing, sizeof nothing);
}

KEEP static void strings(void)
{
	char text[8] = "abc";
	const char *constant = "const", *none = 0, *start = text;
	struct wm_bytes run = { text, 3 };

	ONE(string, char *, WM_TYPE_STR, text);
	WAYMARK(field, text, text);
	expect_bytes("text", WM_TYPE_STR, &start, sizeof start);
	WAYMARK(field, constant, constant);
	expect_bytes("constant", WM_TYPE_STR, &constant, sizeof constant);
	WAYMARK(field, none, none);
	expect_bytes("none", WM_TYPE_STR, &none, sizeof none);
	WAYMARK(field, literal, "some, \"text\"");
	expect("literal", 1);
	CHECK(seen->types[0] == WM_TYPE_STR);
	CHECK(!strcmp(seen->fields, "\"some, \\\"text\\\"\""));
	if (armed) {
		const char *literal;

		memcpy(&literal, seen->payload, sizeof literal);
		CHECK(!strcmp(literal, "some, \"text\""));
	}
	WAYMARK(field, run, WM_BYTES(text, 3));
	expect_bytes("run", WM_TYPE_BYTES, &run, sizeof run);
}

/* An array of any number is its address and its length. */
#define ARRAY_OF(event, type, wm_type)                                                             \
	do {                                                                                       \
		type elements[3] = { (type)1, (type)2, (type)3 };                                  \
		const struct wm_array is = { elements, 3 };                                        \
		WAYMARK(field, event, WM_ARRAY(elements, once(3)));                                \
		expect_bytes(#event, WM_TYPE_ARRAY | wm_type, &is, sizeof is);                     \
	} while (0)

KEEP static void arrays(void)
{
	char text[] = "four";
	int numbers[2] = { 1, 2 };
	const volatile int *first = numbers;
	void *pointers_in[1] = { text };
	const struct wm_array chars = { text, 4 }, two = { numbers, 2 }, one = { pointers_in, 1 };

	ARRAY_OF(a_i8, signed char, WM_TYPE_I8);
	ARRAY_OF(a_u8, unsigned char, WM_TYPE_U8);
	ARRAY_OF(a_i16, short, WM_TYPE_I16);
	ARRAY_OF(a_u16, unsigned short, WM_TYPE_U16);
	ARRAY_OF(a_i32, int, WM_TYPE_I32);
	ARRAY_OF(a_u32, unsigned int, WM_TYPE_U32);
	ARRAY_OF(a_i64, long, WM_TYPE_I64);
	ARRAY_OF(a_u64, unsigned long long, WM_TYPE_U64);
	ARRAY_OF(a_bool, bool, WM_TYPE_BOOL);
	ARRAY_OF(a_f32, float, WM_TYPE_F32);
	ARRAY_OF(a_f64, double, WM_TYPE_F64);
	WAYMARK(field, a_char, WM_ARRAY(text, 4));
	expect_bytes("a_char", WM_TYPE_ARRAY | WM_TYPE_CHAR, &chars, sizeof chars);
	WAYMARK(field, a_ptr, WM_ARRAY(pointers_in, 1));
	expect_bytes("a_ptr", WM_TYPE_ARRAY | WM_TYPE_PTR, &one, sizeof one);
	WAYMARK(field, a_volatile, WM_FIELD(named, WM_HEX(WM_ARRAY(first, 2))));
	expect_bytes("a_volatile", WM_TYPE_ARRAY | WM_TYPE_I32, &two, sizeof two);
}

/* What a macro says about a value leaves its type, and its evaluation, as they are. */
KEEP static void said(void)
{
	struct bits bits = { 5, -6, 0x12345678AULL };
	enum plain plain = PLAIN_B;
	unsigned short port = 0x3412;
	unsigned int address = 0x04030201;
	unsigned long long wide = 0x0807060504030201ULL;
	int counted = 0;

	WAYMARK(field, hex, WM_HEX(port), WM_HEX(-1), WM_HEX(plain), WM_HEX(bits.low));
	expect("hex", 1);
	CHECK(seen->types[0] == WM_TYPE_U16 && seen->types[1] == WM_TYPE_I32);
	if (armed)
		CHECK(payload_int(0, 2) == 0x3412 && (int)payload_int(2, 4) == -1 &&
		      payload_int(6, 4) == PLAIN_B && (payload_int(10, 1) & 7) == 5);
	WAYMARK(field, net, WM_NET(port), WM_NET(address), WM_NET(wide), WM_HEX(WM_NET(address)));
	expect("net", 1);
	CHECK(seen->types[0] == WM_TYPE_U16 && seen->types[1] == WM_TYPE_U32);
	CHECK(seen->types[2] == WM_TYPE_U64 && seen->types[3] == WM_TYPE_U32);
	if (armed)
		CHECK(payload_int(0, 2) == 0x1234 && payload_int(2, 4) == 0x01020304 &&
		      payload_int(6, 8) == 0x0102030405060708LL &&
		      payload_int(14, 4) == 0x01020304);
	WAYMARK(field, labels, WM_ENUM(plain, PLAIN_A = -3, PLAIN_B = 7), WM_ENUM(counted++, ZERO));
	expect("labels", 1);
	CHECK(!strcmp(seen->fields,
		      "WM_ENUM(plain, PLAIN_A = -3, PLAIN_B = 7), WM_ENUM(counted++, ZERO)"));
	if (armed)
		CHECK(payload_int(0, 4) == 7 && payload_int(4, 4) == 0);
	CHECK(counted == armed);
}

/* What the agent reads through a pointer must have been stored before. */
KEEP static int stored_before(int value)
{
	char text[4] = { 'a', 0, 0, 0 };
	int run[2] = { value, value + 1 }, sum;

	text[1] = (char)('a' + value);
	WAYMARK(field, stored, text, WM_BYTES(run, sizeof run));
	if (armed) {
		const char *start;
		const int *numbers;

		seen = arm_seen('m', "field", "stored");
		memcpy(&start, seen->payload, sizeof start);
		memcpy(&numbers, seen->payload + 8, sizeof numbers);
		CHECK(start[1] == 'a' + value);
		CHECK(numbers[1] == value + 1);
	}
	sum = run[0] + run[1];
	run[0] = text[1] = 0;
	return sum;
}

KEEP static void expressions(void)
{
	struct bits bits = { 5, -6, 0x12345678AULL };
	enum plain plain = PLAIN_A;
	int number = 4;

	/*
	 * A bit-field's type is its declared one in C++, a 64-bit integer in C: the value counts.
	 */
	WAYMARK(field, low, bits.low);
	expect("low", 1);
	if (armed)
		CHECK(payload_int(0, seen->bytes) == 5);
	WAYMARK(field, middle, bits.middle);
	expect("middle", 1);
	if (armed)
		CHECK((int)payload_int(0, seen->bytes) == -6);
	WAYMARK(field, wide, bits.wide);
	expect("wide", 1);
	if (armed)
		CHECK(payload_int(0, 8) == 0x12345678ALL);

	WAYMARK(field, plain, plain);
	expect("plain", 1);
	CHECK(seen->bytes == 4);
	if (armed)
		CHECK((int)payload_int(0, 4) == -3);
	WAYMARK(field, constant_enum, PLAIN_B);
	expect("constant_enum", 1);
	if (armed)
		CHECK(payload_int(0, 4) == 7);

	WAYMARK(field, literals, 5, 5U, 5L, 5.5, 'c', true);
	expect("literals", 1);
	CHECK(seen->types[0] == WM_TYPE_I32 && seen->types[1] == WM_TYPE_U32);
	CHECK(seen->types[2] == WM_TYPE_I64 && seen->types[3] == WM_TYPE_F64);
	if (armed)
		CHECK(payload_int(8, 8) == 5);

	WAYMARK(field, ternary, number > 3 ? number : -1, number++ + 1);
	expect("ternary", 1);
	CHECK(number == (armed ? 5 : 4)); /* evaluated once, and only while armed */
	if (armed)
		CHECK(payload_int(0, 4) == 4 && payload_int(4, 4) == 5);

	WAYMARK(field, renamed, WM_FIELD(size, number), WM_FIELD(run, WM_BYTES(&number, 4)));
	expect("renamed", 1);
	CHECK(!strcmp(seen->fields, "WM_FIELD(size, number), WM_FIELD(run, WM_BYTES(&number, 4))"));
	CHECK(seen->bytes == 20);

	WAYMARK(field, nothing);
	expect("nothing", 1);
	CHECK(seen->bytes == 0 && !seen->fields[0]);
}

/* Order and packing: no gaps between fields, all sixteen in place. */
KEEP static void sixteen(int base)
{
	signed char a = (signed char)base;
	short b = (short)(base + 1);
	long long c = base + 2;
	float d = 3;
	double e = 4;

	WAYMARK(field, sixteen, a, b, c, d, e, base + 5, base + 6, base + 7, base + 8, base + 9,
		base + 10, base + 11, base + 12, base + 13, base + 14, once(base + 15));
	expect("sixteen", 1);
	CHECK(seen->bytes == 1 + 2 + 8 + 4 + 8 + 11 * 4);
	CHECK(seen->types[15] == WM_TYPE_I32);
	if (!armed)
		return;
	CHECK(payload_int(0, 1) == base && payload_int(1, 2) == base + 1 &&
	      payload_int(3, 8) == base + 2);
	for (int i = 0; i < 11; i++)
		CHECK(payload_int(23 + 4 * (size_t)i, 4) == base + 5 + i);
}

KEEP static void sdt(int number, const char *text)
{
	double real = 1.5;
	float narrow = 2.5F;
	short small = -2;
	bool flag = true;

	WAYMARK_SDT(field, sdt, number, text, real, narrow, small, flag, &number);
	expect("sdt", 1);
	CHECK(seen->bytes == 4 + 8 + 8 + 4 + 2 + 1 + 8);
	if (armed) {
		const char *start;
		double got;
		float got_narrow;

		memcpy(&start, seen->payload + 4, sizeof start);
		memcpy(&got, seen->payload + 12, sizeof got);
		memcpy(&got_narrow, seen->payload + 20, sizeof got_narrow);
		CHECK(payload_int(0, 4) == number && start == text && got >= real && got <= real);
		CHECK(got_narrow >= narrow && got_narrow <= narrow);
		CHECK((short)payload_int(24, 2) == -2 && payload_int(26, 1) == 1);
	}
	WAYMARK_SDT(field, sdt_bare);
	expect("sdt_bare", 1);
	WAYMARK_SDT(field, sdt_twelve, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, number);
	expect("sdt_twelve", 1);
	if (armed)
		CHECK(payload_int(44, 4) == number);
}

void fields_run(void)
{
	arm_reset();
	evaluated = 0;
	integers();
	floats();
	pointers();
	strings();
	arrays();
	said();
	CHECK(stored_before(3) == 7);
	expressions();
	sixteen(20);
	CHECK(evaluated == (armed ? 12U : 0U));
	sdt(77, "sdt text");
}
