/* SPDX-License-Identifier: MIT */
/* Casts, and the operators of the C++ library's classes. Nothing runs: memory is the file's. */
#include "target/expression/testing/find.h"

static int memory_read(void *data, uint64_t address, void *buffer, size_t bytes)
{
	(void)data;
	return code_file_read(modules[0]->file, address, buffer, bytes);
}

static const struct code_memory memory = { memory_read, NULL };

static void build(const char *compiler, const char *flags)
{
	folder_make(compiler);
	shell("printf 'struct Twin { char big[9]; } other_twin;\\n' >twin.cc");
	shell("%s -std=gnu++17 -no-pie %s -o whole %s/sample_watch_cast.cc twin.cc", compiler,
	      flags, SAMPLES);
	module_open("whole");
}

/* The address that a spec comes to; its bytes are place.bytes. */
static uint64_t address_of(const char *text)
{
	uint64_t address = 0;

	cr_assert_eq(find(text), 0, "%s: %s", text, trouble.detail);
	cr_assert_eq(watch_place_address(&place, &memory, 0, &address, &trouble), 0, "%s: %s", text,
		     trouble.detail);
	return address;
}

static void same(const char *text, const char *other)
{
	uint64_t address = address_of(other), bytes = place.bytes;

	cr_assert_eq(address_of(text), address, "%s is not at %s", text, other);
	cr_assert_eq(place.bytes, bytes, "%s has not the size of %s", text, other);
}

static void no_element(const char *text, const char *words)
{
	uint64_t address;

	cr_assert_eq(find(text), 0, "%s: %s", text, trouble.detail);
	cr_assert_eq(watch_place_address(&place, &memory, 0, &address, &trouble),
		     -WM_E_WATCH_MEMBER, "%s", text);
	cr_assert_str_eq(trouble.detail, words);
}

static void look_at_casts(void)
{
	same("((Pair *)any)->b", "pairs[1].b");
	same("((struct Pair *)any)->b", "pairs[1].b");
	same("((const Pair *)any)[1].a", "pairs[2].a");
	same("((Pair const *)handle)->b", "pairs[1].b");
	same("((Pair *)signed_handle)->b", "pairs[1].b");
	same("((PairAt)any)->b", "pairs[1].b");
	same("(*(Pair **)any_at)->b", "pairs[1].b");
	same("((Pair *)pairs)[2].a", "pairs[2].a");
	same("*(int *)(void *)&pairs[1]", "pairs[1].a");
	same("(narrow)", "narrow");
	/* to a base class, to a derived one, and through both */
	same("((Both *)right)->whole", "both.whole");
	same("((Both *)(Left *)left_base)->right", "both.right");
	same("((Right *)&both)->x", "both.Right::x");
	same("((Left *)&both)->x", "both.Left::x");
	same("((Right *)&both)->right", "both.right");
	/* a void * in between: the address stays as it is */
	same("*(int *)(void *)right", "both.Right::x");
	cr_assert_eq(find("*(unsigned long *)0x404040"), 0, "%s", trouble.detail);
	cr_assert_eq(place.base, WATCH_IN_PROCESS);
	cr_assert_eq(place.start, 0x404040);
	cr_assert_str_eq(expression_type_name(&place.type), "unsigned long");
	/* a type of the variable's own file goes before others */
	cr_assert_eq(find("*(Twin *)&twin"), 0, "%s", trouble.detail);
	cr_assert_eq(place.bytes, 8);
	cr_assert_eq(find("*(Twin *)&other_twin"), 0, "%s", trouble.detail);
	cr_assert_eq(place.bytes, 9);
	refused("*(Twin *)0x1000", -WM_E_WATCH_SEVERAL, "(Twin *): types of that name differ");
	refused("((Nothing *)any)->b", -WM_E_NO_DEBUG, "(Nothing *)");
	refused("((union Pair *)any)->b", -WM_E_NO_DEBUG, "(union Pair *)");
	refused("(long)narrow", -WM_E_WATCH_SYNTAX, "(long) is no cast to a pointer");
	refused("((Pair *)narrow)->b", -WM_E_WATCH_TYPE, "narrow is of type int");
	refused("((Pair *)real)->b", -WM_E_WATCH_TYPE, "real is of type float");
	refused("((Pair *)small.low)->b", -WM_E_WATCH_TYPE, "small.low");
	refused("((Pair *)pairs[0])->b", -WM_E_WATCH_TYPE, "pairs[0] is of type Pair");
	refused("((Base *)&both)->x", -WM_E_WATCH_SEVERAL, "Base (Both -> Left -> Base)");
	refused("((Way *)way_base)->y", -WM_E_WATCH_SYNTAX, "points to a virtual base class");
	refused("*(void *)any", -WM_E_WATCH_TYPE, "");
}

static void look_at_library(void)
{
	same("unique->b", "pairs[1].b");
	same("(*unique).b", "pairs[1].b");
	same("unique[1].b", "pairs[2].b");
	same("newer->b", "pairs[2].b");
	same("shared->a", "pairs[1].a");
	same("row[2].b", "pairs[2].b");
	same("row_alias[1].b", "pairs[1].b");
	same("fixed[1].b", "fixed.__elems_[1].b");
	same("old_text[4]", "letters[4]");
	same("old_text[5]", "letters[5]"); /* its 0 */
	no_element("row[3].a", "row has 3");
	no_element("old_text[6]", "old_text has 5");
	refused("row[-1].a", -WM_E_WATCH_MEMBER, "row is of type std::");
	refused("fixed[2].b", -WM_E_WATCH_MEMBER, "Pair [2]");
	refused("row->a", -WM_E_WATCH_TYPE, "row is of type std::");
	refused("shared.a", -WM_E_WATCH_MEMBER, "has no a");
	refused("text[1]", -WM_E_WATCH_TYPE, "text is of type std::");
	refused("both[1]", -WM_E_WATCH_TYPE, "both is of type Both");
}

TestSuite(watch_cast, .fini = find_end, .timeout = 60);

Test(watch_cast, cast_goes_where_cxx_goes)
{
	build("g++", "-gdwarf-5");
	look_at_casts();
}

Test(watch_cast, cast_goes_where_cxx_goes_in_dwarf_4_of_clang)
{
	build("clang++", "-gdwarf-4 -fstandalone-debug");
	look_at_casts();
}

Test(watch_cast, cast_finds_types_in_units_of_their_own)
{
	build("g++", "-gdwarf-5 -fdebug-types-section");
	look_at_casts();
}

Test(watch_cast, library_operators_lead_to_their_targets)
{
	build("g++", "-gdwarf-5");
	look_at_library();
}

Test(watch_cast, library_operators_lead_to_their_targets_in_dwarf_4_of_clang)
{
	build("clang++", "-gdwarf-4 -fstandalone-debug");
	look_at_library();
}
