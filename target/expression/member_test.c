/* SPDX-License-Identifier: MIT */
/*
 * The member of a name, compared with the C++ compiler's offsets (classes: sample_watch_bases.cc).
 */
#include "target/expression/member.h"

#include "target/expression/testing/find.h"

#include <criterion/criterion.h>
#include <string.h>
#include <waymark/error.h>

static void build(const char *compiler, const char *flags)
{
	folder_make(compiler);
	shell("%s -std=gnu++17 -no-pie %s -o whole %s/sample_watch_bases.cc", compiler, flags,
	      SAMPLES);
	module_open("whole");
}

/* The member's value is in the file; or a constructor stores it, and only its offset is known. */
static void found(const char *text, const char *object, uint64_t offset, uint64_t bytes)
{
	uint64_t start;

	cr_assert_eq(find(object), 0, "%s: %s", object, trouble.detail);
	start = place.start;
	cr_assert_eq(find(text), 0, "%s: %s", text, trouble.detail);
	cr_assert_eq(place.follow_count, 0, "%s", text);
	cr_assert_eq(place.start - start, offset, "%s is at +%lu, not +%lu", text,
		     place.start - start, offset);
	cr_assert_eq(place.bytes, bytes, "%s", text);
}

static void look_all(void)
{
	found("hiding.x", "hiding", 4, 4);
	found("hiding.Hidden::x", "hiding", 0, 4);
	found("hiding.Hiding::x", "hiding", 4, 4);
	found("sample_watch_bases.cc::hiding.Hidden::x", "hiding", 0, 4);
	found("pair.first", "pair", 0, 4);
	found("pair.deep::First::both", "pair", 4, 4);
	found("pair.First::both", "pair", 4, 4);
	found("pair.Second<long>::both", "pair", 16, 8);
	found("pair.deep::Second< long int >::both", "pair", 16, 8);
	found("diamond.Left::both", "diamond", 4, 4);
	found("diamond.Right::both", "diamond", 16, 4);
	found("diamond.high", "diamond", 28, 4);
	found("diamond.Diamond::whole", "diamond", 24, 8);
	found("still.Hidden::x", "still", 0, 4);
	refused("pair.both", -WM_E_WATCH_SEVERAL,
		"pair is of type Pair, which has deep::First::both (Pair -> deep::First), "
		"deep::Second<long");
	refused("diamond.both", -WM_E_WATCH_SEVERAL,
		"deep::First::both (Diamond -> Left -> deep::First), "
		"deep::First::both (Diamond -> Right -> deep::First)");
	refused("diamond.First::both", -WM_E_WATCH_SEVERAL,
		"deep::First (Diamond -> Left -> deep::First)");
	refused("still.x", -WM_E_WATCH_MEMBER, "x is static in Static: watch Static::x");
	refused("diamond.only", -WM_E_WATCH_MEMBER, "watch deep::First::only");
	refused("pair.still", -WM_E_WATCH_MEMBER, "watch deep::Second<long");
	refused("hiding.Other::x", -WM_E_WATCH_MEMBER, "Hiding has no Other::x");
	refused("hiding.ding::x", -WM_E_WATCH_MEMBER, "Hiding has no ding::x");
	refused("hiding.Hidden::y", -WM_E_WATCH_MEMBER, "Hiding has no Hidden::y");
	refused("hiding.cc::x", -WM_E_WATCH_MEMBER, "");
	refused("nothing.Hidden::x", -WM_E_WATCH_VARIABLE, "nothing.Hidden::x");
	refused("virtuals.pad", -WM_E_WATCH_SEVERAL,
		"Virtual::pad (Virtuals -> One -> Virtual), Three::pad (Virtuals -> Three)");
}

TestSuite(watch_member, .fini = find_end, .timeout = 60);

Test(watch_member, name_hidden_or_ambiguous_is_resolved_as_cxx_does)
{
	build("g++", "-gdwarf-5");
	look_all();
}

Test(watch_member, name_is_resolved_in_dwarf_4_of_clang)
{
	build("clang++", "-gdwarf-4 -fstandalone-debug");
	look_all();
}

Test(watch_member, name_is_resolved_where_types_have_units_of_their_own)
{
	build("g++", "-gdwarf-5 -fdebug-types-section");
	look_all();
}

static int part_at(uint32_t offset, char *text, size_t room)
{
	const struct watch_stretch stretch = { offset, 4, "\0\0\0", "\1\0\0" };
	struct watch_part part;

	return expression_type_part(&place.type, &stretch, &part, text, room);
}

Test(watch_member, part_of_a_value_is_named_as_an_expression_names_it)
{
	char part[64];

	build("g++", "-g");
	cr_assert_eq(find("hiding"), 0, "%s", trouble.detail);
	cr_assert_eq(part_at(4, part, sizeof(part)), 1);
	cr_assert_str_eq(part, ".x");
	cr_assert_eq(part_at(0, part, sizeof(part)), 1);
	cr_assert_str_eq(part, ".Hidden::x");
}

/* ---- virtual base classes ---- */

static uint64_t object, table;

/* An object of two words of pointer, whose table has the offset 40 at -24. */
static int made_read(void *data, uint64_t address, void *to, size_t bytes)
{
	uint64_t word = address == object ? table : address == table - 24 ? 40 : 99;

	(void)data;
	memcpy(to, &word, bytes);
	return 0;
}

Test(watch_member, virtual_base_is_found_by_the_objects_table)
{
	const struct code_memory memory = { made_read, NULL };
	uint64_t address;

	build("g++", "-g");
	cr_assert_eq(find("one"), 0);
	object = place.start;
	table = 0x5000;
	cr_assert_eq(find("one.Virtual::shared"), 0, "%s", trouble.detail);
	cr_assert_eq(place.follow_count, 1);
	cr_assert_eq(watch_place_address(&place, &memory, 0, &address, &trouble), 0);
	cr_assert_eq(address, object + 40 + 4);
	cr_assert_eq(find("one.field"), 0, "%s", trouble.detail);
	cr_assert_eq(watch_place_address(&place, &memory, 0, &address, &trouble), 0);
	cr_assert_eq(address, object + 40 + 8);
	cr_assert_eq(place.type.nodes[0].bit, 3);
	cr_assert_eq(place.type.nodes[0].bits, 9);
	/* both ways to a virtual base class lead to one */
	cr_assert_eq(find("virtuals_at->flag"), 0, "%s", trouble.detail);
	cr_assert_eq(place.follow_count, 2);
	/* Two hides what its virtual base class has, also from One's way there */
	cr_assert_eq(find("virtuals.shared"), 0, "%s", trouble.detail);
	cr_assert_eq(place.bytes, 8);
	cr_assert_eq(find("virtuals.One::shared"), 0, "%s", trouble.detail);
	cr_assert_eq(place.bytes, 4);
	/* before the constructor the object has no table */
	table = 0;
	cr_assert_eq(find("one.pad"), 0);
	cr_assert_eq(watch_place_address(&place, &memory, 0, &address, &trouble), -WM_E_WATCH_NULL);
	cr_assert_not_null(strstr(trouble.detail, "one, at 0x"), "%s", trouble.detail);
}
