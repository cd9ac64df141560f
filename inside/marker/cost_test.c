/* SPDX-License-Identifier: MIT */
#include "inside/marker/cost.h"
#include "inside/runtime/seccomp_yield.h"

#include <waymark/marker.h>

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CLOCK (1u << COST_TASK_CLOCK)
#define FAULTS (1u << COST_PAGE_FAULTS)
#define SWITCHES (1u << COST_CONTEXT_SWITCHES)
#define SOFTWARE ((1u << COST_CYCLES) - 1)
#define PAGES 64

Test(cost, rules_of_a_session_add_up_by_name)
{
	unsigned int callers;

	cr_assert_eq(cost_any(), 0);
	cr_assert_eq(cost_add(2, "db:query", CLOCK, 0), 0);
	cr_assert_eq(cost_add(2, "db:*", FAULTS, 0), 0);
	cr_assert_eq(cost_add(2, "db:query", SWITCHES, 0), 0);
	cr_assert_eq(cost_add(3, "*:*", CLOCK, 0), 0);
	cr_assert_eq(cost_wanted(2, "db:query", &callers), CLOCK | FAULTS | SWITCHES);
	cr_assert_eq(cost_wanted(2, "db:commit", &callers), FAULTS);
	cr_assert_eq(cost_wanted(2, "net:rx", &callers), 0);
	cr_assert_eq(cost_wanted(3, "net:rx", &callers), CLOCK);
	cr_assert_eq(cost_wanted(1, "net:rx", &callers), 0);
	/* the most callers; they are no count */
	cr_assert_eq(cost_add(2, "db:query", 0, 5), 0);
	cr_assert_eq(cost_add(2, "db:*", 0, 3), 0);
	cr_assert_eq(cost_wanted(2, "db:query", &callers), CLOCK | FAULTS | SWITCHES);
	cr_assert_eq(callers, 5);
	cost_wanted(2, "db:commit", &callers);
	cr_assert_eq(callers, 3);
	cost_wanted(3, "db:commit", &callers);
	cr_assert_eq(callers, 0);
	cost_filters_set(2, 3);
	cost_filters_set(3, 1);
	cr_assert_eq(cost_filters(), 1);
	cost_clear(2);
	cr_assert_eq(cost_wanted(2, "db:query", &callers), 0);
	cr_assert(cost_any());
	cost_clear(3);
	cr_assert_not(cost_any());
}

Test(cost, declared_fields_come_last)
{
	uint8_t types[16] = { WM_TYPE_I32, WM_TYPE_STR }, none[16] = { 0 };
	char text[64 + COST_TEXT_BYTES] = "bj\ndb\nquery\na.c\n7\nn,sql";
	char bare[64 + COST_TEXT_BYTES] = "mj\ndb\ntick\na.c\n7\n";
	size_t bytes = cost_declare(CLOCK | SWITCHES, 0, types, text, strlen(text) + 1);

	cr_assert_str_eq(text, "bj2\ndb\nquery\na.c\n7\nn,sql,count_task_clock,"
			       "count_context_switches");
	cr_assert_eq(bytes, strlen(text) + 1);
	cr_assert(types[1] == WM_TYPE_STR && types[2] == WM_TYPE_U64 && types[3] == WM_TYPE_U64 &&
		  !types[4]);
	bytes = cost_declare(FAULTS, 7, none, bare, strlen(bare) + 1);
	cr_assert_str_eq(bare, "mj1\ndb\ntick\na.c\n7\ncallchain,count_page_faults");
	cr_assert_eq(bytes, strlen(bare) + 1);
	cr_assert_eq(cost_declare(0, 0, none, bare, 7), 7);
}

Test(cost, texts_of_all_kinds_fit_their_room)
{
	uint8_t types[16] = { WM_TYPE_U64 };
	char text[512] = "mj\ndb\ntick\na.c\n7\nn";
	size_t before = strlen(text) + 1;

	cr_assert_leq(cost_declare(COST_ALL, 1, types, text, before), before + COST_TEXT_BYTES);
	cr_assert_eq(strncmp(text + before, ",callchain,count_task_clock,", 28), 0);
}

Test(cost, sixteen_fields_leave_no_room)
{
	uint8_t types[16];

	memset(types, WM_TYPE_U8, sizeof types);
	cr_assert(cost_fits(0, 0, types));
	cr_assert_not(cost_fits(CLOCK, 0, types));
	cr_assert_not(cost_fits(0, 1, types));
	types[15] = 0;
	cr_assert(cost_fits(CLOCK, 0, types));
	cr_assert(cost_fits(0, 1, types));
	cr_assert_not(cost_fits(CLOCK, 1, types));
	cr_assert_not(cost_fits(CLOCK | FAULTS, 0, types));
}

static void touch_pages(void)
{
	volatile char *pages = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(pages, MAP_FAILED);
	madvise((void *)pages, PAGES * 4096, MADV_NOHUGEPAGE);
	for (int i = 0; i < PAGES; i++)
		pages[i * 4096] = 1;
	munmap((void *)pages, PAGES * 4096);
}

/* In order of their kinds, of this thread alone, and errno stays. */
static void *read_all(void *data)
{
	uint64_t before[COST_KINDS_COUNT], after[COST_KINDS_COUNT], few[COST_KINDS_COUNT];

	cost_read(NULL, SOFTWARE, before);
	errno = EDOM;
	touch_pages();
	usleep(1);
	cr_assert_eq(cost_read(NULL, SOFTWARE, after), COST_CYCLES);
	cr_assert_eq(errno, EDOM);
	cr_assert_gt(after[COST_TASK_CLOCK], before[COST_TASK_CLOCK]);
	cr_assert_geq(after[COST_PAGE_FAULTS], before[COST_PAGE_FAULTS] + PAGES);
	cr_assert_lt(after[COST_PAGE_FAULTS], before[COST_PAGE_FAULTS] + 2 * PAGES);
	cr_assert_eq(after[COST_PAGE_FAULTS], after[COST_MINOR_FAULTS] + after[COST_MAJOR_FAULTS]);
	cr_assert_gt(after[COST_CONTEXT_SWITCHES], before[COST_CONTEXT_SWITCHES]);
	cr_assert_eq(cost_read(NULL, FAULTS | SWITCHES, few), 2);
	cr_assert_geq(few[0], after[COST_PAGE_FAULTS]);
	cr_assert_geq(few[1], after[COST_CONTEXT_SWITCHES]);
	return data;
}

Test(cost, values_are_the_calling_threads)
{
	pthread_t thread;

	cost_allow(1);
	for (int i = 0; i < 20; i++)
		touch_pages();
	read_all(NULL);
	cr_assert_eq(pthread_create(&thread, NULL, read_all, NULL), 0);
	pthread_join(thread, NULL);
}

Test(cost, no_value_where_a_filter_may_be)
{
	uint64_t values[COST_KINDS_COUNT];

	cost_allow(0);
	cr_assert_eq(cost_read(NULL, CLOCK | FAULTS, values), 2);
	cr_assert(values[0] == COST_UNAVAILABLE && values[1] == COST_UNAVAILABLE);
	cost_allow(1);
	seccomp_yield_begin(0); /* no control thread is there to wait for */
	cost_read(NULL, CLOCK | FAULTS, values);
	cr_assert(values[0] == COST_UNAVAILABLE && values[1] == COST_UNAVAILABLE);
	seccomp_yield_end();
	cost_read(NULL, CLOCK, values);
	cr_assert_eq(values[0], COST_UNAVAILABLE, "until someone has looked");
	seccomp_yield_forget();
	cost_read(NULL, CLOCK, values);
	cr_assert_neq(values[0], COST_UNAVAILABLE);
}
