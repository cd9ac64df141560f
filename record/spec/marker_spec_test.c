/* SPDX-License-Identifier: MIT */
#include "abi/cost.h"
#include "record/spec/spec.h"

#include <criterion/criterion.h>
#include <string.h>
#include <waymark/error.h>

static struct spec_list list;

static int adds(const char *text)
{
	int err = spec_add(&list, text);

	return err;
}

Test(marker_spec, marker_takes_counts_by_name)
{
	cr_assert_eq(adds("marker:db:query/count=task-clock+page-faults/"), 0);
	cr_assert_eq(adds("db:*/count=cs/"), 0);
	cr_assert_eq(adds("db:commit"), 0);
	cr_assert_str_eq(list.all[0].glob, "db:query");
	cr_assert_eq(list.all[0].costs, 1u << COST_TASK_CLOCK | 1u << COST_PAGE_FAULTS);
	cr_assert_str_eq(list.all[1].glob, "db:*");
	cr_assert_eq(list.all[1].costs, 1u << COST_CONTEXT_SWITCHES);
	cr_assert_eq(list.all[2].costs, 0);
	cr_assert_eq(spec_costs(&list),
		     1u << COST_TASK_CLOCK | 1u << COST_PAGE_FAULTS | 1u << COST_CONTEXT_SWITCHES);
	cr_assert_eq(adds("marker:db:query/count=faults/"), -WM_E_SPEC_TWICE);
	spec_list_release(&list);
}

static void refused(const char *text, int error, const char *word)
{
	int err = adds(text);

	cr_assert_eq(err, error, "%s: %d", text, err);
	cr_assert(strstr(list.words, word), "%s: %s", text, list.words);
}

Test(marker_spec, callers_are_of_markers_and_probes)
{
	cr_assert_not(spec_callers(&list));
	cr_assert_eq(spec_add(&list, "db:query/bt/"), 0);
	cr_assert(spec_callers(&list));
	cr_assert_eq(list.all[0].callers, 10);
	cr_assert_eq(spec_add(&list, "func:malloc/ret,bt=64,arg1/"), 0);
	cr_assert_eq(list.all[1].request->callers, 64);
	cr_assert_eq(list.all[1].callers, 0);
	spec_drop(&list);
	spec_drop(&list);
	cr_assert_eq(spec_add(&list, "usdt:db:query/bt=1/"), 0);
	cr_assert(spec_callers(&list));
	spec_drop(&list);
	refused("db:query/bt=65/", -WM_E_SPEC, "takes a number from 1 to 64");
	refused("addr:f.c:7/bt=0/", -WM_E_SPEC, "takes a number from 1 to 64");
	cr_assert_eq(list.count, 0);
}

Test(marker_spec, wrong_counts_are_refused_by_name)
{
	refused("db:query/count=task-clocks/", -WM_E_COUNT_EVENT, "did you mean task-clock");
	refused("db:query/count=task-clock+none-such/", -WM_E_COUNT_EVENT, "none-such");
	refused("db:query/count=cpu-migrations/", -WM_E_COUNT_EVENT,
		"\"cpu-migrations\" (column 16) can't be counted");
	refused("db:query/count=task-clock+faults+cs+major-faults+minor-faults/", -WM_E_SPEC,
		"is one too many: count takes 4");
	refused("db:query/count=/", -WM_E_SPEC, "count=");
	refused("db:query/counts=cs/", -WM_E_SPEC, "counts=cs");
	refused("db:query/count=cs,follow/", -WM_E_SPEC,
		"\"follow\" (column 19) is an option of watch, and not of marker");
	refused("db:query/count=cs", -WM_E_SPEC, "");
	refused("db:query//", -WM_E_SPEC, "an option is empty");
	refused("func:malloc/count=cs/", -WM_E_SPEC, "is an option of marker");
	refused("usdt:libc:memory_sbrk_more/arg1,count=cs/", -WM_E_SPEC, "is an option of marker");
	cr_assert_eq(list.count, 0);
}

/* What the machine can't count, or threads may not read, is refused with the name. */
Test(marker_spec, hardware_counts_are_refused_by_name)
{
	int err = adds("db:query/count=cs+instructions/");

	if (!err) {
		cr_assert_eq(list.all[0].costs, 1u << COST_CONTEXT_SWITCHES |
							1u << COST_INSTRUCTIONS |
							1u << COST_UNCOUNTED);
		return;
	}
	cr_assert(err == -WM_E_COUNT_UNIT || err == -WM_E_PERF_DENIED, "%d", err);
	cr_assert(strstr(list.words, "instructions"), "%s", list.words);
	refused("db:query/count=uncounted/", -WM_E_COUNT_EVENT, "uncounted");
}
