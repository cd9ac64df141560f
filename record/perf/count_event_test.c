/* SPDX-License-Identifier: MIT */
/* Names of events, as the kernel's numbers for them. */
#include "record/perf/count_event.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <unistd.h>
#include <waymark/error.h>

static char words[256];
static struct count_event event;

static int reads(const char *text)
{
	return count_event_read(&event, text, (struct detail){ words, sizeof(words) });
}

Test(count_event, names_have_the_kernels_numbers)
{
	static const struct {
		const char *name;
		uint32_t type;
		uint64_t config;
		uint8_t excludes_user, excludes_kernel;
	} rows[] = {
		{ "task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, 0, 0 },
		{ "PAGE-FAULTS", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 0, 0 },
		{ "cs:u", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, 0, 1 },
		{ "faults:k", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 1, 0 },
		{ "cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 0, 0 },
		{ "cycles:uk", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 0, 0 },
		{ "instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, 0, 0 },
		{ "branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES, 0, 0 },
		{ "L1-dcache-load-misses", PERF_TYPE_HW_CACHE,
		  PERF_COUNT_HW_CACHE_L1D | PERF_COUNT_HW_CACHE_OP_READ << 8 |
			  PERF_COUNT_HW_CACHE_RESULT_MISS << 16,
		  0, 0 },
		{ "r1c0", PERF_TYPE_RAW, 0x1c0, 0, 0 },
		{ "r1c0:u", PERF_TYPE_RAW, 0x1c0, 0, 1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cr_assert_eq(reads(rows[i].name), 0, "%s: %s", rows[i].name, words);
		cr_assert_eq(event.type, rows[i].type, "%s", rows[i].name);
		cr_assert_eq(event.config, rows[i].config, "%s", rows[i].name);
		cr_assert_eq(event.excludes_user, rows[i].excludes_user, "%s", rows[i].name);
		cr_assert_eq(event.excludes_kernel, rows[i].excludes_kernel, "%s", rows[i].name);
		cr_assert_str_eq(event.name, rows[i].name);
	}
}

Test(count_event, clocks_are_nanoseconds)
{
	cr_assert_eq(reads("task-clock"), 0);
	cr_assert_str_eq(event.unit, "ns");
	cr_assert_eq(reads("context-switches"), 0);
	cr_assert_str_eq(event.unit, "");
}

/* The bits that a unit's format names (a PC has this unit; its event 0 is the TSC). */
Test(count_event, a_units_terms_go_into_its_formats_bits)
{
	if (access("/sys/bus/event_source/devices/msr/events/tsc", R_OK))
		cr_skip_test("this machine has no unit msr");
	cr_assert_eq(reads("msr/tsc/"), 0, "%s", words);
	cr_assert_eq(event.config, 0);
	cr_assert_eq(reads("msr/event=0x4/u"), 0, "%s", words);
	cr_assert_eq(event.config, 4);
	cr_assert(event.excludes_kernel && !event.excludes_user);
	cr_assert_eq(reads("msr/config=0x1ff/"), 0, "%s", words);
	cr_assert_eq(event.config, 0x1ff);
	cr_assert_eq(reads("msr/event=1,config1=7/"), 0, "%s", words);
	cr_assert_eq(event.config1, 7);
}

Test(count_event, what_is_no_event_is_refused_with_words)
{
	static const char *const bad[] = {
		"",
		"nosuch",
		"r",
		"rxyz",
		"cs:x",
		":u",
		"nosuch/tsc/",
		"msr/tsc",
		"msr//x",
		"../msr/tsc/",
		"msr/../x/",
		"msr/event=/",
		"msr/event=x/",
		"msr/event=0x10000000000000000/",
		"sched:../../x",
		".:id",
		"sched:",
	};
	char text[COUNT_NAME_BYTES + 1];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		words[0] = '\0';
		cr_assert_eq(reads(bad[i]), -WM_E_COUNT_EVENT, "%s", bad[i]);
		cr_assert_eq(!words[0], !bad[i][0], "%s", bad[i]);
	}
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	cr_assert_eq(reads(text), -WM_E_COUNT_EVENT, "a name that is too long");
}

static int listed_count;

static int takes(void *data, const struct count_listed *listed)
{
	listed_count++;
	return data && !strcmp(listed->name, data) ? -EIO : 0;
}

Test(count_event, listed_names_can_be_read)
{
	char wanted[] = "page-faults";

	cr_assert_eq(count_events_list("page*", 0, takes, NULL), 0);
	cr_assert_eq(listed_count, 1);
	cr_assert_eq(count_events_list(NULL, 0, takes, wanted), -EIO, "the callback ends the list");
	cr_assert_eq(reads(wanted), 0);
}
