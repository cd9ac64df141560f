/* SPDX-License-Identifier: MIT */
/*
 * Types as they are kept, their values as text, and conditions on them. What gdb says of values:
 * gdb_test.c.
 */
#include "target/expression/type.h"

#include "base/condition.h"
#include "target/expression/option.h"
#include "target/expression/type_make.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>

static struct watch_type type;
static struct watch_condition bound;
static struct watch_trouble trouble;

static char names[] = "\0int\0a\0b\0RED\0BLUE";
#define UNTESTED "the condition can't be tested: "
#define INT 1
#define A 5
#define B 7
#define RED 9
#define BLUE 13

static struct watch_node nodes[3];

static void make(uint8_t class, uint32_t bytes)
{
	memset(nodes, 0, sizeof(nodes));
	nodes[0] = (struct watch_node){ .class = class, .bytes = bytes, .name = INT };
	type = (struct watch_type){
		.nodes = nodes, .node_count = 1, .names = names, .names_bytes = sizeof(names)
	};
}

static void make_struct(void)
{
	make(WATCH_STRUCT, 8);
	nodes[0].first = 1;
	nodes[0].count = 2;
	nodes[1] = (struct watch_node){ .class = WATCH_SIGNED, .bytes = 4, .member = A };
	nodes[2] = (struct watch_node){
		.class = WATCH_UNSIGNED, .bytes = 4, .offset = 4, .member = B
	};
	type.node_count = 3;
}

static void make_enum(void)
{
	make(WATCH_ENUM, 4);
	nodes[0].first = 1;
	nodes[0].count = 2;
	nodes[1] = (struct watch_node){ .class = WATCH_ENUMERATOR, .value = -2, .member = RED };
	nodes[2] = (struct watch_node){ .class = WATCH_ENUMERATOR, .value = 7, .member = BLUE };
	type.node_count = 3;
}

static const char *text_of(const void *value)
{
	static char text[WATCH_TEXT_MAX];

	expression_type_text(&type, value, NULL, text, sizeof(text));
	return text;
}

Test(watch_type, without_debug_information_there_are_bytes)
{
	const uint8_t value[] = { 1, 0xff, 3, 0x80, 5, 6, 7, 8 };

	cr_assert_eq(expression_type_plain(&type, 2), 0);
	cr_assert_eq(type.nodes[0].type, WM_TYPE_U16);
	cr_assert_eq(type_node_bits(&type.nodes[0], value), 0xff01);
	cr_assert_str_eq(text_of(value), "65281");
	cr_assert_str_eq(expression_type_name(&type), "2 bytes");
	cr_assert_eq(expression_type_check(&type), 0);
	expression_type_release(&type);
	cr_assert_eq(expression_type_plain(&type, 3), 0);
	cr_assert_eq(type.nodes[0].type, WM_TYPE_BYTES);
	cr_assert_eq(type_node_bits(&type.nodes[0], value), 0);
	cr_assert_str_eq(text_of(value), "{0x01, 0xff, 0x03}");
	expression_type_release(&type);
}

Test(watch_type, bits_are_taken_out_of_their_bytes)
{
	const uint8_t value[] = { 0xe8, 0x8f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1 };

	make(WATCH_SIGNED, 2);
	nodes[0].bit = 3;
	nodes[0].bits = 5;
	cr_assert_eq(type_node_bits(&type.nodes[0], value), (uint64_t)-3);
	nodes[0].class = WATCH_UNSIGNED;
	cr_assert_eq(type_node_bits(&type.nodes[0], value), 29);
	nodes[0].bit = 6;
	cr_assert_eq(type_node_bits(&type.nodes[0], value), 0x1f);
	make(WATCH_UNSIGNED, 9);
	nodes[0].bit = 5;
	nodes[0].bits = 61;
	cr_assert_eq(expression_type_check(&type), 0);
	cr_assert_eq(type_node_bits(&type.nodes[0], value), 0x0ffffffffffffc7f);
	make(WATCH_UNSIGNED, 8);
	cr_assert_eq(type_node_bits(&type.nodes[0], value), 0xffffffffffff8fe8);
	make(WATCH_BOOL, 1);
	nodes[0].bit = 4;
	nodes[0].bits = 1;
	cr_assert_str_eq(text_of(value), "false");
}

Test(watch_type, numbers_are_hexadecimal_if_that_is_asked)
{
	const struct watch_style style = { .is_hex = 1 };
	const int32_t value[] = { -100000, 7 };
	const double one = 1;
	const uint8_t long_one[16] = { 0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f, 0x55, 0x55 };
	char text[64];

	make_struct();
	expression_type_text(&type, value, &style, text, sizeof(text));
	cr_assert_str_eq(text, "{a = 0xfffe7960, b = 0x7}");
	make_enum();
	expression_type_text(&type, value + 1, &style, text, sizeof(text));
	cr_assert_str_eq(text, "0x7");
	make(WATCH_FLOAT, 8);
	expression_type_text(&type, &one, &style, text, sizeof(text));
	cr_assert_str_eq(text, "0x3ff0000000000000");
	make(WATCH_FLOAT, 16);
	expression_type_text(&type, long_one, &style, text, sizeof(text));
	cr_assert_str_eq(text, "0x3fff8000000000000000");
	make(WATCH_SIGNED, 4);
	nodes[0].bit = 3;
	nodes[0].bits = 5;
	expression_type_text(&type, (const uint8_t[]){ 0xe8, 0, 0, 0 }, &style, text, sizeof(text));
	cr_assert_str_eq(text, "0x1d");
}

Test(watch_type, a_text_has_a_bound)
{
	const int32_t value[] = { -100000, 7 };
	char text[16];

	make_struct();
	cr_assert_eq(expression_type_check(&type), 0);
	cr_assert_str_eq(text_of(value), "{a = -100000, b = 7}");
	cr_assert_eq(expression_type_text(&type, value, NULL, text, sizeof(text)), 15);
	cr_assert_str_eq(text, "{a = -100000...");
	cr_assert_eq(expression_type_text(&type, value, NULL, text, 1), 0);
	cr_assert_eq(expression_type_text(&type, value, NULL, text, 0), 0);
}

Test(watch_type, what_was_stored_is_checked)
{
	make_struct();
	nodes[1].offset = 5;
	cr_assert_eq(expression_type_check(&type), -EINVAL, "a member lies outside");
	make_struct();
	nodes[0].first = 0;
	cr_assert_eq(expression_type_check(&type), -EINVAL, "a node is in itself");
	make_struct();
	nodes[0].count = 3;
	cr_assert_eq(expression_type_check(&type), -EINVAL, "a child is none");
	make_struct();
	nodes[1].member = sizeof(names);
	cr_assert_eq(expression_type_check(&type), -EINVAL, "a name is none");
	make_struct();
	type.names_bytes = B + 1;
	cr_assert_eq(expression_type_check(&type), -EINVAL, "a name has no end");
	make_struct();
	nodes[2].class = WATCH_ENUMERATOR;
	cr_assert_eq(expression_type_check(&type), -EINVAL, "an enumerator is a member");
	make_struct();
	nodes[0].class = WATCH_ARRAY;
	cr_assert_eq(expression_type_check(&type), -EINVAL, "an array has two elements' types");
	nodes[0].count = 1;
	nodes[0].elements = 3;
	cr_assert_eq(expression_type_check(&type), -EINVAL, "an array is longer than it is");
	nodes[0].elements = 2;
	cr_assert_eq(expression_type_check(&type), 0);
	make(WATCH_FLOAT, 5);
	cr_assert_eq(expression_type_check(&type), -EINVAL, "a float has 5 bytes");
	make(WATCH_SIGNED, 9);
	cr_assert_eq(expression_type_check(&type), -EINVAL, "a number has 9 bytes");
	make(WATCH_SIGNED, 4);
	nodes[0].bit = 30;
	nodes[0].bits = 3;
	cr_assert_eq(expression_type_check(&type), -EINVAL, "bits lie outside");
	make(WATCH_ENUMERATOR + 1, 4);
	cr_assert_eq(expression_type_check(&type), -EINVAL, "a class is none");
	type.node_count = 0;
	cr_assert_eq(expression_type_check(&type), -EINVAL);
}

static int bind(const char *number, enum watch_by relation)
{
	struct watch_test test = { .subject = WATCH_OF_NEW, .relation = relation };

	snprintf(test.number, sizeof(test.number), "%s", number);
	return expression_test_bind(&test, &type, &bound, &trouble);
}

static int holds(const char *number, enum watch_by relation, const void *value)
{
	uint64_t now = 0;

	cr_assert_eq(bind(number, relation), 0, "%s: %s", number, trouble.detail);
	memcpy(&now, value, type.nodes[0].bytes);
	return condition_holds(&bound, 0, now, type.nodes[0].bytes, 1);
}

Test(watch_condition, numbers_are_the_types_own)
{
	const int32_t minus = -1;
	const char letter = 'a';

	make(WATCH_SIGNED, 4);
	cr_assert(holds("-1", WATCH_BY_EQUAL, &minus));
	cr_assert(holds("0xffffffff", WATCH_BY_EQUAL, &minus));
	cr_assert(holds("0", WATCH_BY_LESS, &minus));
	cr_assert_not(holds("-1", WATCH_BY_LESS, &minus));
	cr_assert(holds("-1", WATCH_BY_LESS_EQUAL, &minus));
	cr_assert(holds("-2", WATCH_BY_GREATER, &minus));
	cr_assert(holds("-1", WATCH_BY_GREATER_EQUAL, &minus));
	cr_assert(holds("1", WATCH_BY_UNEQUAL, &minus));
	cr_assert(holds("0x80000000", WATCH_BY_BITS, &minus));
	cr_assert_eq(bind("4294967295", WATCH_BY_EQUAL), -WM_E_WATCH_OPTION);
	cr_assert_str_eq(trouble.detail, UNTESTED "4294967295 is no value of this type: int");
	cr_assert_eq(bind("-2147483648", WATCH_BY_EQUAL), 0);
	cr_assert_eq(bind("-2147483649", WATCH_BY_EQUAL), -WM_E_WATCH_OPTION);
	cr_assert_eq(bind("0x100000000", WATCH_BY_EQUAL), -WM_E_WATCH_OPTION);
	cr_assert_eq(bind("RED", WATCH_BY_EQUAL), -WM_E_WATCH_OPTION);
	cr_assert_str_eq(trouble.detail, UNTESTED "RED is no number as this type has them: int");
	cr_assert_eq(bind("1.5", WATCH_BY_EQUAL), -WM_E_WATCH_OPTION);
	make(WATCH_UNSIGNED, 4);
	cr_assert_not(holds("0", WATCH_BY_LESS, &minus));
	cr_assert(holds("4294967295", WATCH_BY_EQUAL, &minus));
	cr_assert_eq(bind("-1", WATCH_BY_EQUAL), -WM_E_WATCH_OPTION);
	make(WATCH_CHAR, 1);
	cr_assert(holds("'a'", WATCH_BY_EQUAL, &letter));
	cr_assert(holds("'\\x61'", WATCH_BY_EQUAL, &letter));
	cr_assert(holds("'\\n'", WATCH_BY_GREATER, &letter));
	cr_assert(holds("'\\0'", WATCH_BY_UNEQUAL, &letter));
	cr_assert_eq(bind("'ab'", WATCH_BY_EQUAL), -WM_E_WATCH_OPTION);
	make(WATCH_POINTER, 8);
	cr_assert(holds("NULL", WATCH_BY_EQUAL, &(void *){ NULL }));
	make(WATCH_BOOL, 1);
	cr_assert(holds("true", WATCH_BY_EQUAL, &(char){ 1 }));
}

Test(watch_condition, enumerators_are_numbers)
{
	const int32_t red = -2, blue = 7;

	make_enum();
	cr_assert_str_eq(text_of(&red), "RED");
	cr_assert(holds("RED", WATCH_BY_EQUAL, &red));
	cr_assert(holds("colour::BLUE", WATCH_BY_EQUAL, &blue));
	cr_assert(holds("RED", WATCH_BY_GREATER, &blue));
	cr_assert(holds("7", WATCH_BY_EQUAL, &blue));
	cr_assert_eq(bind("GREEN", WATCH_BY_EQUAL), -WM_E_WATCH_OPTION);
}

Test(watch_condition, floats_compare_as_floats)
{
	const float third = 1.0f / 3.0f, nothing = __builtin_nanf("");
	const double tenth = 0.1, minus = -2;

	make(WATCH_FLOAT, 4);
	cr_assert(holds("0.33333334", WATCH_BY_EQUAL, &third));
	cr_assert(holds("0.3", WATCH_BY_GREATER, &third));
	cr_assert_not(holds("0", WATCH_BY_GREATER, &nothing));
	cr_assert_not(holds("0", WATCH_BY_LESS_EQUAL, &nothing));
	cr_assert(holds("0", WATCH_BY_UNEQUAL, &nothing));
	make(WATCH_FLOAT, 8);
	cr_assert(holds("0.1", WATCH_BY_EQUAL, &tenth));
	cr_assert(holds("-1.5", WATCH_BY_LESS, &minus));
	cr_assert_eq(bind("abc", WATCH_BY_EQUAL), -WM_E_WATCH_OPTION);
	cr_assert_eq(bind("1", WATCH_BY_BITS), -WM_E_WATCH_OPTION);
}

Test(watch_condition, structures_only_change)
{
	const struct watch_test changed = { .subject = WATCH_OF_CHANGE };
	const struct watch_test tid = { .subject = WATCH_OF_TID,
					.relation = WATCH_BY_EQUAL,
					.number = "77" };
	const struct watch_test old = { .subject = WATCH_OF_OLD,
					.relation = WATCH_BY_EQUAL,
					.number = "5" };

	make_struct();
	cr_assert_eq(bind("0", WATCH_BY_EQUAL), -WM_E_WATCH_OPTION);
	cr_assert_eq(expression_test_bind(&changed, &type, &bound, &trouble), 0);
	cr_assert(condition_holds(&bound, 0, 1, 8, 1));
	cr_assert_not(condition_holds(&bound, 1, 1, 8, 1));
	cr_assert_eq(expression_test_bind(&tid, &type, &bound, &trouble), 0);
	cr_assert(condition_holds(&bound, 0, 0, 8, 77));
	cr_assert_not(condition_holds(&bound, 77, 77, 8, 78));
	make(WATCH_SIGNED, 4);
	cr_assert_eq(expression_test_bind(&old, &type, &bound, &trouble), 0);
	cr_assert(condition_holds(&bound, 5, 6, 4, 1));
	cr_assert_not(condition_holds(&bound, 6, 5, 4, 1));
}
