/* SPDX-License-Identifier: MIT */
#include "code/demangle.h"

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

/* The demangler passes an empty first name as NULL. UBSan checks. */
Test(demangle, rust_name_of_empty_module)
{
	(void)code_demangle("_RNvC0mycrate3run", 1, text, sizeof(text));
}

/* Each S_ stands for all before it, twice: 2^40 letters from a hundred. */
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
