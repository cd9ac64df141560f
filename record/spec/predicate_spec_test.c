/* SPDX-License-Identifier: MIT */
/* Conditions of if=: what each is read as, and what is wrong with those that can't be read. */
#include "record/spec/spec.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

static struct spec spec;
static char words[512];

static int reads(const char *text)
{
	return spec_read(&spec, text, (struct detail){ words, sizeof(words) });
}

/* The only condition of a spec of a marker. */
static const struct predicate *only(const char *condition)
{
	char text[256];

	spec_release(&spec);
	snprintf(text, sizeof(text), "db:query/if=%s/", condition);
	cr_assert_eq(reads(text), 0, "%s: %s", text, words);
	cr_assert_eq(spec.predicate_count, 1);
	return &spec.predicates[0];
}

Test(predicate_spec, relations_are_read)
{
	static const struct {
		const char *condition;
		enum watch_by by;
	} all[] = {
		{ "rows==5", WATCH_BY_EQUAL },	{ "rows != 5", WATCH_BY_UNEQUAL },
		{ "rows<5", WATCH_BY_LESS },	{ "rows<=5", WATCH_BY_LESS_EQUAL },
		{ "rows>5", WATCH_BY_GREATER }, { "rows >= 5", WATCH_BY_GREATER_EQUAL },
		{ "rows&5", WATCH_BY_BITS },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		const struct predicate *predicate = only(all[i].condition);

		cr_expect_str_eq(predicate->name, "rows");
		cr_expect_eq(predicate->by, all[i].by, "%s", all[i].condition);
		cr_expect_eq(predicate->number, 5);
		cr_expect(predicate->forms & PREDICATE_INTEGER);
	}
}

Test(predicate_spec, values_are_read_in_all_forms)
{
	const struct predicate *predicate = only("rows==-1");
	double real;

	cr_expect_eq(predicate->number, UINT64_MAX);
	cr_expect(predicate->forms & PREDICATE_NEGATIVE);
	predicate = only("rows==0xffffffff");
	cr_expect_eq(predicate->number, 0xffffffff);
	cr_expect(predicate->forms & PREDICATE_HEX);
	cr_expect_eq(only("rows>64K")->number, 65536);
	cr_expect_eq(only("took>3ms")->number, 3000000);
	cr_expect_eq(only("c=='a'")->number, 'a');
	cr_expect_eq(only("ok==true")->number, 1);
	cr_expect_eq(only("p!=NULL")->number, 0);
	predicate = only("price>=-1.5");
	memcpy(&real, &predicate->f64, sizeof(real));
	cr_expect_eq(real, -1.5);
	cr_expect_not(predicate->forms & PREDICATE_INTEGER);
}

Test(predicate_spec, text_is_a_glob_behind_a_tilde_alone)
{
	const struct predicate *predicate = only("sql~\"UPDATE*, /x/\"");

	cr_expect_str_eq(predicate->text, "UPDATE*, /x/");
	cr_expect_eq(predicate->by, WATCH_BY_EQUAL);
	cr_expect_eq(predicate->forms, PREDICATE_TEXT);
	cr_expect_str_eq(only("sql~UPDATE*")->text, "UPDATE*");
	cr_expect_str_eq(only("sql==\"a*b\\\"c\"")->text, "a\\*b\"c");
	cr_expect_eq(only("sql!=\"5\"")->by, WATCH_BY_UNEQUAL);
}

Test(predicate_spec, all_kinds_with_fields_have_them)
{
	cr_assert_eq(reads("func:open/args,if=arg1~\"/etc/*\",if=arg2==0/"), 0, "%s", words);
	cr_expect_eq(spec.request->predicate_count, 2);
	cr_expect_str_eq(spec.request->name, "open");
	cr_expect_str_eq(spec.request->predicates[0].text, "/etc/*");
	cr_expect_eq(spec.request->wants_all, 1);
	spec_release(&spec);
	cr_assert_eq(reads("usdt:db:query/if=arg1>1/"), 0, "%s", words);
	spec_release(&spec);
	cr_assert_eq(reads("addr:libz.so+0x1a40/rdi,if=rdi==RED/"), 0, "%s", words);
	cr_expect_eq(spec.request->predicates[0].forms, PREDICATE_WORD);
	spec_release(&spec);
}

Test(predicate_spec, what_is_no_condition_is_refused_by_its_place)
{
	cr_expect_eq(reads("db:query/if=rows/"), -WM_E_SPEC);
	cr_expect(strstr(words, "\"rows\" (column 13) is no condition"), "%s", words);
	cr_expect_eq(reads("db:query/if=rows==/"), -WM_E_SPEC);
	cr_expect_eq(reads("db:query/if===5/"), -WM_E_SPEC);
	cr_expect_eq(reads("db:query/if=rows==5q/"), -WM_E_SPEC);
	cr_expect_eq(reads("db:query/if=rows==\"a/"), -WM_E_SPEC);
	cr_expect_eq(reads("db:query/if=rows==RED/"), -WM_E_SPEC);
	cr_expect(strstr(words, "compares with a word"), "%s", words);
	cr_expect_eq(reads("db:query/if=a==1,if=a==2,if=a==3,if=a==4,if=a==5/"), -WM_E_SPEC);
	cr_expect(strstr(words, "one too many"), "%s", words);
	cr_expect_eq(reads("trail/if=a==1/"), -WM_E_SPEC);
	cr_expect_eq(
		reads("db:query/if=sql~\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		      "aaaaaaaaaaa\"/"),
		-WM_E_SPEC);
}

Test(predicate_spec, same_markers_by_other_conditions_are_another_spec)
{
	struct spec_list list = { 0 };

	cr_expect_eq(spec_add(&list, "db:query/if=rows==0/"), 0);
	cr_expect_eq(spec_add(&list, "db:query/if=rows>9/"), 0);
	cr_expect_eq(spec_add(&list, "db:query/if=rows==0/"), -WM_E_SPEC_TWICE);
	cr_expect_eq(spec_add(&list, "db:query"), 0);
	cr_expect_eq(spec_add(&list, "marker:db:query"), -WM_E_SPEC_TWICE);
	cr_expect(spec_marker_predicates(&list));
	spec_list_release(&list);
}
