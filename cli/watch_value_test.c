/* SPDX-License-Identifier: MIT */
/* Values of any bytes, of fields of any type, as text. */
#include "cli/watch_value.h"

#include "target/expression/watch_place.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <waymark/marker.h>

#define ROUNDS 20000
#define BYTES (8 * WATCH_REGISTERS)

static char names[] = "\0int\0a\0b";
static struct watch_node nodes[4];
static struct watch_type type = {
	.nodes = nodes, .node_count = 1, .names = names, .names_bytes = sizeof(names)
};

static const char *text_of(const struct watch_type *of, int field_type, uint64_t bits, int is_hex)
{
	static char text[WATCH_VALUE_BYTES];
	const struct wm_event_field field = { .type = field_type, .value.u = bits };

	return watch_value_text(of, &field, is_hex, text, sizeof(text));
}

static void make(uint8_t class, uint32_t bytes)
{
	memset(nodes, 0, sizeof(nodes));
	nodes[0] = (struct watch_node){ .class = class, .bytes = bytes };
	type.node_count = 1;
}

Test(watch_value, value_is_shown_as_its_type_has_it)
{
	make(WATCH_SIGNED, 4);
	cr_expect_str_eq(text_of(&type, WM_TYPE_I32, 0xffffffff, 0), "-1");
	cr_expect_str_eq(text_of(&type, WM_TYPE_I32, 0xffffffff, 1), "0xffffffff");
	make(WATCH_BOOL, 1);
	cr_expect_str_eq(text_of(&type, WM_TYPE_U8, 1, 0), "true");
	make(WATCH_UNSIGNED, 1);
	nodes[0].bit = 3;
	nodes[0].bits = 2;
	cr_expect_str_eq(text_of(&type, WM_TYPE_U8, 2, 0), "2", "the event has its bits alone");
}

/* A process declares its events with any types, whatever its variable is. */
Test(watch_value, field_of_another_size_is_shown_as_it_is)
{
	make(WATCH_SIGNED, 8);
	cr_expect_str_eq(text_of(&type, WM_TYPE_U32, 7, 0), "7");
	cr_expect_str_eq(text_of(&type, WM_TYPE_STR, 8, 0), "8");
	cr_expect_str_eq(text_of(&type, WM_TYPE_STR, 8, 1), "0x0");
	cr_expect_str_eq(text_of(&type, -1, 9, 0), "9");
	cr_expect_str_eq(text_of(&type, -1, 9, 1), "0x0");
	cr_expect_str_eq(text_of(&type, INT32_MAX, 9, 0), "9");
	cr_expect_str_eq(text_of(NULL, WM_TYPE_PTR, 0x1f, 0), "0x1f");
	cr_expect_str_eq(text_of(NULL, WM_TYPE_I64, UINT64_MAX, 0), "-1");
	type.node_count = 0;
	cr_expect_str_eq(text_of(&type, WM_TYPE_U64, 5, 0), "5");
}

Test(watch_value, any_field_is_a_text_that_ends)
{
	uint64_t seed = 6;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint64_t random = sample_random(&seed);
		struct wm_event_field field = { .type = (int)(random % 40) - 4,
						.value.u = sample_random(&seed) };
		char text[WATCH_VALUE_BYTES];
		size_t room = 1 + (random >> 8) % sizeof(text);

		make((uint8_t)(WATCH_SIGNED + (random >> 16) % 8), 1u << (random >> 24) % 5);
		if (random >> 32 & 1) {
			nodes[0].bits = (uint16_t)(1 + (random >> 33) % (8 * nodes[0].bytes));
			nodes[0].bit = (uint16_t)((random >> 40) %
						  (8 * nodes[0].bytes - nodes[0].bits + 1));
		}
		if (expression_type_check(&type))
			continue;
		memset(text, 'x', sizeof(text));
		cr_assert_eq(watch_value_text(&type, &field, random >> 50 & 1, text, room), text);
		cr_assert_lt(strnlen(text, room), room);
		for (size_t j = room; j < sizeof(text); j++)
			cr_assert_eq(text[j], 'x');
	}
}

Test(watch_value, piece_begins_where_a_register_does)
{
	cr_expect_eq(watch_value_piece(0, 16, 8), 8);
	cr_expect_eq(watch_value_piece(4, 12, 0), 4);
	cr_expect_eq(watch_value_piece(4, 12, 4), 8);
	cr_expect_eq(watch_value_piece(0, 16, 4), 0);
	cr_expect_eq(watch_value_piece(0, 16, 16), 0);
	cr_expect_eq(watch_value_piece(0, 16, UINT32_MAX - 7), 0);
	cr_expect_eq(watch_value_piece(0, 40, 0), 0, "five registers watch nothing");
	cr_expect_eq(watch_value_piece(0, UINT64_MAX, 0), 0);
	cr_expect_eq(watch_value_piece(0, 0, 0), 0);
}

/* No offset that a process claims leads beyond the value. */
Test(watch_value, any_piece_is_within_the_value)
{
	uint64_t seed = 7;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint64_t address = sample_random(&seed), bytes = sample_random(&seed) % 48;
		uint32_t offset = (uint32_t)sample_random(&seed);
		uint32_t piece;

		if (i % 2)
			offset %= 64;
		piece = watch_value_piece(address, bytes, offset);
		if (piece)
			cr_assert(offset + piece <= bytes && bytes <= BYTES);
	}
}

static char part[WATCH_PART_BYTES], before[WATCH_VALUE_BYTES], after[WATCH_VALUE_BYTES];
static const struct watch_change change = { part, before, after };

static int change_of(uint32_t offset, uint32_t bytes, const void *was, const void *is)
{
	const struct watch_stretch stretch = { offset, bytes, was, is };
	struct watch_part found;

	return watch_value_change(&type, &stretch, 0, &found, &change);
}

Test(watch_value, change_is_named_by_its_member)
{
	static const uint32_t was[] = { 1, 2 }, is[] = { 1, 3 };
	static const uint64_t wide = 77;

	make(WATCH_STRUCT, 16);
	type.node_count = 4;
	nodes[0].first = 1;
	nodes[0].count = 3;
	nodes[1] = (struct watch_node){ .class = WATCH_UNSIGNED, .bytes = 4, .member = 5 };
	nodes[2] = nodes[1];
	nodes[2].offset = 4;
	nodes[2].member = 7;
	nodes[3] = (struct watch_node){
		.class = WATCH_UNSIGNED, .bytes = 8, .offset = 8, .member = 1
	};
	cr_assert_eq(expression_type_check(&type), 0);
	cr_expect_eq(change_of(0, 8, was, is), 1);
	cr_expect_str_eq(part, ".b");
	cr_expect_str_eq(before, "2");
	cr_expect_str_eq(after, "3");
	cr_expect_eq(change_of(8, 4, &wide, &wide), -ERANGE);
	cr_expect_str_eq(part, "+8");
	cr_expect_str_eq(after, "77");
}

Test(watch_value, bytes_that_are_no_part_are_named_by_their_offset)
{
	struct watch_part found;
	const uint64_t was = 1, is = 2;
	const struct watch_stretch stretch = { UINT32_MAX, 8, &was, &is };

	cr_expect_eq(watch_value_change(NULL, &stretch, 1, &found, &change), 0);
	cr_expect_str_eq(part, "+4294967295");
	cr_expect_str_eq(before, "0x1");
	cr_expect_str_eq(after, "0x2");
	cr_expect_eq(found.bytes, 0);
}
