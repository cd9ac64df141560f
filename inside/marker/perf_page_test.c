/* SPDX-License-Identifier: MIT */
/* Pages as the kernel would write them. */
#include "inside/marker/perf_page.h"

#include <criterion/criterion.h>

static struct perf_event_mmap_page page;
static uint64_t counter;
static uint32_t asked;
static int changes; /* how often the page is to change during a read */
static struct perf_page_read got;

static uint64_t pmc(uint32_t number)
{
	asked = number;
	if (changes) {
		changes--;
		page.lock += 2;
		page.offset += 1000;
	}
	return counter;
}

static void begin(void)
{
	page = (struct perf_event_mmap_page){ .lock = 8,
					      .index = 3,
					      .offset = 5000,
					      .time_enabled = 700,
					      .time_running = 700,
					      .pmc_width = 48 };
	page.cap_user_rdpmc = 1;
	counter = 42;
	changes = 0;
}

static int reads(void)
{
	return perf_page_read(&page, pmc, &got);
}

Test(perf_page, offset_and_counter_add_up, .init = begin)
{
	cr_assert_eq(reads(), 0);
	cr_assert_eq(got.count, 5042);
	cr_assert_eq(asked, 2, "index is one more than the counter's number");
	cr_assert_eq(got.uncounted_ns, 0);
}

Test(perf_page, counter_is_signed_at_its_width, .init = begin)
{
	counter = (UINT64_C(1) << 48) - 10;
	cr_assert_eq(reads(), 0);
	cr_assert_eq(got.count, 4990);
	counter = (UINT64_C(1) << 47) - 1;
	cr_assert_eq(reads(), 0);
	cr_assert_eq(got.count, 5000 + (UINT64_C(1) << 47) - 1);
	counter = UINT64_C(0xffff000000000000) | 42; /* past the width: nothing */
	cr_assert_eq(reads(), 0);
	cr_assert_eq(got.count, 5042);
	page.pmc_width = 64;
	counter = (uint64_t)-1;
	cr_assert_eq(reads(), 0);
	cr_assert_eq(got.count, 4999);
}

Test(perf_page, page_that_changes_is_read_again, .init = begin)
{
	changes = 3;
	cr_assert_eq(reads(), 0);
	cr_assert_eq(got.count, 8042);
	cr_assert_eq(changes, 0);
}

Test(perf_page, page_that_changes_each_time_is_given_up, .init = begin)
{
	changes = PERF_PAGE_TRIES;
	cr_assert_eq(reads(), -1);
}

Test(perf_page, event_that_is_not_on_a_counter_has_no_value, .init = begin)
{
	page.index = 0;
	cr_assert_eq(reads(), -1);
}

Test(perf_page, kernel_that_permits_no_rdpmc_has_no_value, .init = begin)
{
	page.cap_user_rdpmc = 0;
	cr_assert_eq(reads(), -1);
}

Test(perf_page, width_that_makes_no_sense_has_no_value, .init = begin)
{
	page.pmc_width = 0;
	cr_assert_eq(reads(), -1);
	page.pmc_width = 65;
	cr_assert_eq(reads(), -1);
}

/* The count is what was counted; how much is missing is not guessed. */
Test(perf_page, multiplexed_count_has_its_gap, .init = begin)
{
	page.time_enabled = 3000;
	page.time_running = 1000;
	cr_assert_eq(reads(), 0);
	cr_assert_eq(got.count, 5042);
	cr_assert_eq(got.uncounted_ns, 2000);
}
