/* SPDX-License-Identifier: MIT */
/* What a debug register's bytes are of a value that takes several. */
#include "target/expression/type.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static struct watch_type type;
static struct watch_part found;

static char names[] = "\0int\0a\0b\0node\0S";
#define INT 1
#define A 5
#define B 7
#define NODE 9
#define S 14

static struct watch_node nodes[8];

static void make(uint8_t class, uint32_t bytes)
{
	memset(nodes, 0, sizeof(nodes));
	nodes[0] = (struct watch_node){ .class = class, .bytes = bytes, .name = INT };
	type = (struct watch_type){
		.nodes = nodes, .node_count = 1, .names = names, .names_bytes = sizeof(names)
	};
}

/* An array of elements of a class. */
static void make_array(uint8_t class, uint32_t bytes, uint32_t count)
{
	make(WATCH_ARRAY, bytes * count);
	nodes[0].first = 1;
	nodes[0].count = 1;
	nodes[0].elements = count;
	nodes[1] = (struct watch_node){ .class = class, .bytes = bytes };
	type.node_count = 2;
	cr_assert_eq(expression_type_check(&type), 0);
}

/* struct { int a; union { char b[4]; }; struct { int a, b; } node[2]; int S : 5; } */
static void make_parts(void)
{
	make(WATCH_STRUCT, 28);
	nodes[0].first = 1;
	nodes[0].count = 4;
	nodes[1] = (struct watch_node){ .class = WATCH_SIGNED, .bytes = 4, .member = A };
	nodes[2] = (struct watch_node){ .class = WATCH_BYTES, .bytes = 4, .offset = 4 };
	nodes[3] = (struct watch_node){ .class = WATCH_ARRAY,
					.bytes = 16,
					.offset = 8,
					.member = NODE,
					.first = 5,
					.count = 1,
					.elements = 2 };
	nodes[4] = (struct watch_node){
		.class = WATCH_SIGNED, .bytes = 4, .offset = 24, .bits = 5, .member = S
	};
	nodes[5] = (struct watch_node){ .class = WATCH_STRUCT, .bytes = 8, .first = 6, .count = 2 };
	nodes[6] = (struct watch_node){ .class = WATCH_SIGNED, .bytes = 4, .member = A };
	nodes[7] = (struct watch_node){
		.class = WATCH_SIGNED, .bytes = 4, .offset = 4, .member = B
	};
	type.node_count = 8;
}

/* "PART: BEFORE -> AFTER"; "" without a part; "PART..." of a number with some bytes elsewhere. */
static const char *seen(uint32_t offset, uint32_t bytes, const void *before, const void *after)
{
	const struct watch_stretch stretch = { offset, bytes, before, after };
	char name[32], values[2][64];
	static char text[256];
	int err = expression_type_part(&type, &stretch, &found, name, sizeof(name));
	uint32_t at = found.offset - offset;

	if (err <= 0) {
		snprintf(text, sizeof(text), "%s%s", name, err == -ERANGE ? "..." : "");
		return text;
	}
	cr_assert_geq(found.offset, offset);
	cr_assert_leq(found.offset + found.bytes, offset + bytes);
	expression_type_part_text(&type, &found, (const char *)before + at, NULL, values[0],
				  sizeof(values[0]));
	expression_type_part_text(&type, &found, (const char *)after + at, NULL, values[1],
				  sizeof(values[1]));
	snprintf(text, sizeof(text), "%s: %s -> %s", name, values[0], values[1]);
	return text;
}

Test(expression_type_part, part_of_just_the_bytes_is_called_as_in_c)
{
	const int32_t none[2] = { 0 }, some[] = { 1, 2 };
	char text[9];

	make_parts();
	cr_assert_str_eq(seen(0, 4, none, some), ".a: 0 -> 1");
	cr_assert_str_eq(seen(16, 8, none, some), ".node[1]: {a = 0, b = 0} -> {a = 1, b = 2}");
	cr_assert_str_eq(seen(20, 4, none, some), ".node[1].b: 0 -> 1");
	/* a member without a name; bytes behind the members; no room */
	cr_assert_str_eq(seen(4, 4, none, some), "");
	cr_assert_str_eq(seen(28, 4, none, some), "");
	cr_assert_eq(expression_type_part(&type, &(struct watch_stretch){ 20, 4, none, some },
					  &found, text, sizeof(text)),
		     0);
	cr_assert_str_eq(text, "");
}

Test(expression_type_part, elements_that_changed_are_told)
{
	const int32_t none[2] = { 0 }, first[] = { 1, 0 }, second[] = { 0, 4 }, both[] = { 1, 4 };

	make_array(WATCH_SIGNED, 4, 4);
	cr_assert_str_eq(seen(0, 8, none, second), "[1]: 0 -> 4");
	cr_assert_str_eq(seen(8, 8, none, first), "[2]: 0 -> 1");
	cr_assert_str_eq(seen(8, 8, none, both), "[2..3]: {0, 0} -> {1, 4}");
	/* which one was written is unknown if the value stayed */
	cr_assert_str_eq(seen(0, 8, both, both), "[0..1]: {1, 4} -> {1, 4}");
	/* one that begins in the piece before */
	cr_assert_str_eq(seen(2, 2, none, both), "[0]...");
}

Test(expression_type_part, strings_are_not_taken_apart)
{
	make_array(WATCH_CHAR, 1, 16);
	cr_assert_str_eq(seen(0, 8, "hello wo", "hallo wo"),
			 "[0..7]: \"hello wo\" -> \"hallo wo\"");
	cr_assert_str_eq(seen(8, 8, "rld\0\0\0\0", "rld!\0\0\0"),
			 "[8..15]: \"rld\\000\\000\\000\\000\" -> \"rld!\\000\\000\\000\"");
	make_array(WATCH_UNSIGNED, 1, 16);
	cr_assert_str_eq(seen(8, 8, "rldxxxxx", "rleyxxxx"), "[10..11]: {100, 120} -> {101, 121}");
}

Test(expression_type_part, members_that_changed_are_told)
{
	const int32_t none[2] = { 0 }, some[] = { 1, 2 }, bits[] = { 0, 0x1f };
	struct watch_node *b = &nodes[2];

	make_parts();
	cr_assert_str_eq(seen(0, 8, none, (const int32_t[]){ 5, 0 }), ".a: 0 -> 5");
	/* the second has no name; half of one; a bit-field's padding belongs to no member */
	cr_assert_str_eq(seen(0, 8, none, some), "");
	cr_assert_str_eq(seen(0, 2, none, some), ".a...");
	cr_assert_str_eq(seen(20, 8, none, bits), ".S: 0 -> -1");
	b->member = B;
	b->class = WATCH_SIGNED;
	cr_assert_str_eq(seen(0, 8, none, some), ".a..b: {a = 0, b = 0} -> {a = 1, b = 2}");
	nodes[0].flags = WATCH_IS_UNION;
	b->offset = 0;
	b->bytes = 8;
	cr_assert_str_eq(seen(0, 8, none, some), ".b: 0 -> 8589934593");
	cr_assert_str_eq(seen(8, 8, none, some), ".node[0]: {a = 0, b = 0} -> {a = 1, b = 2}");
}

Test(expression_type_part, number_of_several_registers_is_named_with_some_bytes)
{
	const double none[2] = { 0 }, some[] = { 1.5, 2.5 };
	const long double number = 1.25L;
	const __float128 quad = 1.5;
	uint8_t wide[2][16] = { { 0 } };

	memcpy(wide[1], &number, 10);
	make(WATCH_FLOAT, 16);
	cr_assert_str_eq(seen(8, 8, wide[0] + 8, wide[1] + 8), "...");
	cr_assert_eq(found.bytes, 16);
	cr_assert_str_eq(seen(0, 16, wide[0], wide[1]), ": 0 -> 1.25");
	memcpy(wide[1], &quad, 16);
	nodes[0].flags = WATCH_IS_QUAD;
	cr_assert_str_eq(seen(0, 16, wide[0], wide[1]), ": 0 -> 1.5");
	make(WATCH_COMPLEX, 16);
	cr_assert_str_eq(seen(0, 8, none, some), ".real: 0 -> 1.5");
	cr_assert_str_eq(seen(8, 8, none, some), ".imag: 0 -> 1.5");
	cr_assert_str_eq(seen(0, 16, none, some), ": 0 + 0i -> 1.5 + 2.5i");
	make(WATCH_COMPLEX, 32);
	cr_assert_str_eq(seen(24, 8, none, some), ".imag...");
	cr_assert_eq(found.offset, 16);
}
