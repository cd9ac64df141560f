/* SPDX-License-Identifier: MIT */
/* Sums in specs: sum=, min=, max=, avg=, hist=, by=, and what is refused. */
#include "record/spec/spec.h"

#include <criterion/criterion.h>
#include <string.h>
#include <waymark/error.h>

static struct spec spec;
static char words[512];

static int parse(const char *text)
{
	spec_release(&spec);
	return spec_read(&spec, text, (struct detail){ words, sizeof(words) });
}

static void field_is(unsigned int number, enum sum_as as, const char *name)
{
	const struct code_sums *sums = spec.request ? &spec.request->sums : &spec.sums;

	cr_expect_lt(number, sums->count);
	cr_expect_eq(sums->fields[number].as, as, "%u", number);
	cr_expect_str_eq(sums->fields[number].name, name);
}

Test(sum_spec, fields_are_in_the_order_of_a_row)
{
	cr_assert_eq(parse("func:f/max=a,sum=b+c,hist=d,by=e+caller,avg=b/"), 0, "%s", words);
	cr_assert_eq(spec.request->sums.count, 6);
	field_is(0, SUM_BY, "e");
	field_is(1, SUM_BY, "caller");
	field_is(2, SUM_HIST, "d");
	field_is(3, SUM_SUM, "b");
	field_is(4, SUM_SUM, "c");
	field_is(5, SUM_MAX, "a");
	cr_expect_eq(spec.request->callers, 1);
	cr_assert_eq(parse("db:query/sum=rows,by=kind/"), 0, "%s", words);
	field_is(0, SUM_BY, "kind");
	field_is(1, SUM_SUM, "rows");
}

Test(sum_spec, count_alone_is_a_sum)
{
	cr_assert_eq(parse("func:f/count/"), 0);
	cr_expect(spec.request->sums.is_wanted && !spec.request->sums.count);
	cr_assert_eq(parse("db:query/count/"), 0);
	cr_expect(spec.sums.is_wanted && !spec.costs);
	cr_assert_eq(parse("db:query/count=cs/"), 0);
	cr_expect(!spec.sums.is_wanted && spec.costs);
	cr_assert_eq(parse("db:query/count=cs,sum=rows/"), -WM_E_SPEC);
}

Test(sum_spec, parameters_may_be_called_like_options)
{
	cr_assert_eq(parse("func:f/min,count:u64,by/"), 0, "%s", words);
	cr_expect(!spec.request->sums.is_wanted);
	cr_expect_eq(spec.request->wish_count, 3);
	cr_expect_str_eq(spec.request->wishes[1].name, "count");
}

Test(sum_spec, callers_are_those_that_sums_need)
{
	cr_assert_eq(parse("func:f/count,by=callchain/"), 0);
	cr_expect_eq(spec.request->callers, 10);
	cr_assert_eq(parse("func:f/count,by=callchain,bt=3/"), 0);
	cr_expect_eq(spec.request->callers, 3);
	cr_assert_eq(parse("func:f/count,bt=3/"), -WM_E_SPEC);
	cr_expect(strstr(words, "add by=callchain"), "%s", words);
}

Test(sum_spec, too_many_fields_are_refused)
{
	cr_assert_eq(parse("func:f/by=a+b+c+d/"), -WM_E_SPEC);
	cr_expect(strstr(words, "one too many"), "%s", words);
	cr_assert_eq(parse("func:f/hist=a+b/"), -WM_E_SPEC);
	cr_assert_eq(parse("func:f/sum=a+b+c+d+e,min=a+b+c+d/"), -WM_E_SPEC);
	cr_assert_eq(parse("func:f/min=a+a/"), -WM_E_SPEC);
	cr_expect(strstr(words, "is there twice"), "%s", words);
	spec_release(&spec);
}
