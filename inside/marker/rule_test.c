/* SPDX-License-Identifier: MIT */
#include "inside/marker/rule.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

Test(rule, matches_names_and_globs)
{
	cr_assert(rule_match("net:rx", "net:rx"));
	cr_assert(!rule_match("net:rx", "net:rxx"));
	cr_assert(!rule_match("net:rx", "net:r"));
	cr_assert(rule_match("*:*", "net:rx"));
	cr_assert(rule_match("n*t:*x", "net:rx"));
	cr_assert(rule_match("net:?x", "net:rx"));
	cr_assert(!rule_match("net:?x", "net:x"));
	cr_assert(rule_match("net:*", "net:"), "a star takes nothing too");
	cr_assert(rule_match("a*b*c:d", "aXbXbXc:d"));
	cr_assert(!rule_match("a*b*c:d", "aXbXbXc:e"));
	cr_assert(rule_match("net:**x", "net:rx"));
}

Test(rule, no_wildcard_matches_the_colon)
{
	cr_assert(!rule_match("*", "net:rx"));
	cr_assert(!rule_match("net*rx", "net:rx"));
	cr_assert(!rule_match("net?rx", "net:rx"));
	cr_assert(!rule_match("net[:]rx", "net:rx"));
	cr_assert(!rule_match("net[!a]rx", "net:rx"));
}

Test(rule, understands_sets)
{
	cr_assert(rule_match("net:[rt]x", "net:tx"));
	cr_assert(!rule_match("net:[!rt]x", "net:tx"));
	cr_assert(rule_match("net:[!rt]x", "net:ax"));
	cr_assert(rule_match("net:[a-c]x", "net:bx"));
	cr_assert(!rule_match("net:[a-c]x", "net:dx"));
	cr_assert(rule_match("net:[]]x", "net:]x"), "a bracket that comes first is in the set");
	cr_assert(rule_match("net:[x", "net:[x"), "a bracket that is not closed is itself");
	cr_assert(!rule_match("net:[a-c]", "net:"));
}

Test(rule, takes_no_exponential_time)
{
	char glob[RULE_BYTES_MAX], name[RULE_BYTES_MAX];

	memset(name, 'a', sizeof name);
	strcpy(name + sizeof name - 4, ":b");
	for (size_t i = 0; i + 8 < sizeof glob; i += 2)
		memcpy(glob + i, "*a", 3);
	strcat(glob, "c:b");
	cr_assert(!rule_match(glob, name));
}

Test(rule, refuses_what_is_no_spec)
{
	char longer[RULE_BYTES_MAX + 2];

	cr_assert_eq(rule_check("net:rx"), 0);
	cr_assert_eq(rule_check("net"), -WM_E_SPEC);
	cr_assert_eq(rule_check(":rx"), -WM_E_SPEC);
	cr_assert_eq(rule_check("net:"), -WM_E_SPEC);
	cr_assert_eq(rule_check("a:b:c"), -WM_E_SPEC);
	cr_assert_eq(rule_check(""), -WM_E_SPEC);
	memset(longer, 'a', sizeof longer);
	longer[3] = ':';
	longer[sizeof longer - 1] = 0;
	cr_assert_eq(rule_check(longer), -WM_E_SPEC);
}

Test(rule, the_last_rule_that_matches_prevails)
{
	cr_assert_eq(rule_add(0, "net:*", true), 0);
	cr_assert_eq(rule_add(0, "net:rx", false), 0);
	cr_assert(rule_wants(0, "net:tx"));
	cr_assert(!rule_wants(0, "net:rx"));
	cr_assert_eq(rule_add(0, "net:*", true), 0);
	cr_assert(rule_wants(0, "net:rx"), "the same rule again counts as the latest");
	rule_clear(0);
	cr_assert(!rule_wants(0, "net:tx"));
	cr_assert(!rule_any(0));
}

Test(rule, names_and_patterns_prevail_over_each_other_by_their_order_alone)
{
	cr_assert_eq(rule_add(4, "net:rx", true), 0);
	cr_assert_eq(rule_add(4, "net:*", false), 0);
	cr_assert(!rule_wants(4, "net:rx"), "the pattern came later");
	cr_assert_eq(rule_add(4, "net:rx", true), 0);
	cr_assert(rule_wants(4, "net:rx"), "the name came again");
	cr_assert_eq(rule_add(4, "n?t:*", false), 0);
	cr_assert_eq(rule_add(4, "net:*", true), 0);
	cr_assert(rule_wants(4, "net:tx"), "the first of the patterns came again");
	cr_assert_eq(rule_add(4, "n?t:*", true), 0);
	cr_assert_eq(rule_add(4, "*:tx", false), 0);
	cr_assert(!rule_wants(4, "net:tx"));
	cr_assert(rule_wants(4, "net:rx"));
	rule_clear(4);
	cr_assert(!rule_wants(4, "net:rx"));
}

Test(rule, a_pattern_is_no_name_even_where_a_name_is_spelt_like_it)
{
	cr_assert_eq(rule_add(4, "net:?", true), 0);
	cr_assert_eq(rule_add(4, "net:[", false), 0);
	cr_assert(!rule_wants(4, "net:["));
	cr_assert(rule_wants(4, "net:?"));
	rule_clear(4);
}

Test(rule, thousands_of_names_are_each_found)
{
	char name[32];

	for (int i = 0; i < RULES_MAX; i++) {
		snprintf(name, sizeof name, "many:e%d", i);
		cr_assert_eq(rule_add(5, name, i % 3 != 0), 0);
	}
	for (int i = 0; i < RULES_MAX; i++) {
		snprintf(name, sizeof name, "many:e%d", i);
		cr_assert_eq(rule_wants(5, name), i % 3 != 0, "%s", name);
	}
	cr_assert(!rule_wants(5, "many:e"));
	cr_assert_eq(rule_add(5, "many:e0", true), 0, "one that is there needs no room");
	rule_clear(5);
	cr_assert(!rule_any(5) && !rule_wants(5, "many:e1"));
}

Test(rule, sessions_have_rules_of_their_own)
{
	cr_assert_eq(rule_add(1, "net:*", true), 0);
	cr_assert_eq(rule_add(2, "db:*", true), 0);
	cr_assert(rule_wants(1, "net:rx"));
	cr_assert(!rule_wants(2, "net:rx"));
	rule_clear(1);
	cr_assert(rule_wants(2, "db:x"));
}

Test(rule, a_session_has_a_limit)
{
	char glob[32];
	int error = 0;

	for (int i = 0; !error && i <= RULES_MAX; i++) {
		snprintf(glob, sizeof glob, "net:e%d", i);
		error = rule_add(3, glob, true);
	}
	cr_assert_eq(error, -7, "-E2BIG, got %d", error);
}
