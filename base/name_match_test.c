/* SPDX-License-Identifier: MIT */
#include "base/name_match.h"

#include <criterion/criterion.h>

Test(name_match, brackets_of_a_name_are_no_class)
{
	cr_expect(name_match("[vdso]", "[vdso]"));
	cr_expect(name_match("watch:accounts[2].cents", "watch:accounts[2].cents"));
	cr_expect(name_match("watch:accounts\\[*\\].cents", "watch:accounts[2].cents"));
	cr_expect(name_match("watch:accounts[2].*", "watch:accounts[2].cents"));
	cr_expect(name_match("*[2].cents", "watch:accounts[2].cents"));
	cr_expect(name_match("a\\[[2]?", "a[[2]x"));
	cr_expect(name_match("operator[]*", "operator[](int)"));
	cr_expect(name_match("operator*", "operator*"));
	cr_expect_not(name_match("accounts[2].*", "accounts[3].cents"));
	cr_expect_not(name_match("accounts[2]", "accounts[3]"));
}

Test(name_match, glob_matches_as_fnmatch)
{
	cr_expect(name_match("shop:*", "shop:order"));
	cr_expect(name_match("shop:[op]*", "shop:order"));
	cr_expect(name_match("*/lib/*", "/usr/lib/x"));
	cr_expect_not(name_match("shop:?", "shop:order"));
	cr_expect_not(name_match("shop", "shop:order"));
}

Test(name_match, event_matches_in_any_letter_case)
{
	cr_expect(name_match_event("*miss*", "CACHE_MISSES"));
	cr_expect_not(name_match_event("*hit*", "CACHE_MISSES"));
}

Test(name_match, module_matches_by_each_of_its_names)
{
	static const char path[] = "/usr/lib/libz.so.1.2.13";

	cr_expect(name_match_module(path, path));
	cr_expect(name_match_module("/usr/*/libz*", path));
	cr_expect(name_match_module("libz.so.1.2.13", path));
	cr_expect(name_match_module("libz.so.1", path));
	cr_expect(name_match_module("libz.so", path));
	cr_expect(name_match_module("libz", path));
	cr_expect(name_match_module("lib[xyz]*", path));
	cr_expect(name_match_module("[vdso]", "[vdso]"));
	cr_expect(name_match_module("run", "/opt/run"));
	cr_expect_not(name_match_module("lib", path));
	cr_expect_not(name_match_module("libz.so.1.2.1", path));
	cr_expect_not(name_match_module("lib/libz.so.1.2.13", path));
	cr_expect_not(name_match_module("run", "/opt/run.sh"));
}
