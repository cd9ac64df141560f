/* SPDX-License-Identifier: MIT */
#include "target/code/demangle.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static char text[4096];

Test(demangle, names_of_cxx_and_rust)
{
	cr_assert(code_demangle("_ZN4shop5Order3addEi", 1, text, sizeof(text)));
	cr_assert_str_eq(text, "shop::Order::add(int)");
	cr_assert(code_demangle("_ZN4shop5Order3addEi", 0, text, sizeof(text)));
	cr_assert_str_eq(text, "shop::Order::add");
	cr_assert(code_demangle("_ZN5mybox4open17h0123456789abcdefE", 0, text, sizeof(text)));
	cr_assert_str_eq(text, "mybox::open");
	cr_assert(code_demangle("_RNvC7mycrate3run", 1, text, sizeof(text)));
	cr_assert_str_eq(text, "mycrate::run");
}

Test(demangle, other_names_are_none)
{
	static const char *const names[] = { "",    "_",      "main",	"_Z",	"_R",
					     "_ZN", "_ZN99x", "__Z1fv", "_RNvC" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		cr_assert_not(code_demangle(names[i], 1, text, sizeof(text)), "%s", names[i]);
	cr_assert_not(code_demangle("_Z1fv", 1, text, 2));
	cr_assert_not(code_demangle("_Z1fv", 1, text, 0));
}

static void expect(const char *name, int with_parameters, const char *is)
{
	code_name_text(name, with_parameters, text, sizeof(text));
	cr_expect_str_eq(text, is, "%s: %s", name, text);
}

/* As c++filt has them. */
Test(demangle, parts_and_copies_keep_what_tells_them)
{
	expect("_ZN4shop3addEi.cold", 1, "shop::add(int) [clone .cold]");
	expect("_ZN4shop3addEi.cold", 0, "shop::add [clone .cold]");
	expect("_Z1fi.isra.0.cold", 1, "f(int) [clone .isra.0] [clone .cold]");
	expect("_Z1fi.constprop.0.1", 0, "f [clone .constprop.0.1]");
	expect("_RNvC7mycrate3run.llvm.12", 1, "mycrate::run [clone .llvm.12]");
	expect("_ZN12foo..Bar$GT$4open17h0123456789abcdefE", 1, "foo::Bar>::open");
	expect("_ZN5mybox4open17h0123456789abcdefE.cold", 1, "mybox::open [clone .cold]");
	expect("f.cold", 1, "f.cold");
	expect("a\nb", 1, "a_b");
}

Test(demangle, cut_names_say_so)
{
	char name[2048];

	code_name_text("_Z6lengthi", 1, text, 12);
	cr_expect_str_eq(text, "length(int)");
	code_name_text("_Z6lengthi", 1, text, 11);
	cr_expect_str_eq(text, "length(...");
	code_name_text("name", 1, text, 4);
	cr_expect_str_eq(text, "...");
	code_name_text("l\xc3\xa4nge", 1, text, 6);
	cr_expect_str_eq(text, "l...");
	memset(name, 'i', sizeof(name) - 1); /* int, int, ... */
	memcpy(name, "_Z1f", 4);
	name[1000] = 0;
	expect(name, 1, "f(...)");
}

/* The demangler passes an empty first name as NULL. UBSan checks. */
Test(demangle, rust_name_of_empty_module)
{
	(void)code_demangle("_RNvC0mycrate3run", 1, text, sizeof(text));
}

/* Each S_ repeats all before it, twice: 2^40 letters from a hundred. */
Test(demangle, a_name_that_explodes_is_left_alone)
{
	char name[512] = "_Z1f1aIiE";
	size_t used;

	strcpy(name, "_Z1fI1aE");
	used = strlen(name);
	for (int i = 0; i < 40; i++)
		used += (size_t)snprintf(name + used, sizeof(name) - used, "1bIS%c_S%c_E",
					 i < 10 ? '0' + i : 'A' + i - 10,
					 i < 10 ? '0' + i : 'A' + i - 10);
	(void)code_demangle(name, 1, text, sizeof(text));
	memset(name, 'P', sizeof(name) - 1);
	memcpy(name, "_Z1f", 4);
	(void)code_demangle(name, 1, text, sizeof(text));
}
