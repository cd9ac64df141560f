/* SPDX-License-Identifier: MIT */
#include "cli/top_count.h"
#include "cli/top_show.h"
#include "target/process/target.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <waymark/marker/field.h>

#define PID 7

static struct top_count counted;

static void begin(void)
{
	cr_assert_eq(top_count_init(&counted), 0);
	counted.has_switches = counted.has_kernel = 1;
}

static void end(void)
{
	top_count_release(&counted);
}

static int take(const char *name, char kind, uint32_t id, uint32_t tid, uint64_t time_ns)
{
	struct wm_event event = { .size = sizeof(event),
				  .name = name,
				  .kind = kind,
				  .pid = PID,
				  .tid = tid,
				  .realtime_ns = time_ns,
				  .id = id,
				  .cpu = -1 };

	return top_count_take(&counted, &event);
}

static int take_kernel(const char *name, uint32_t id, uint32_t tid, uint64_t time_ns, int cpu,
		       const struct wm_event_field *fields, uint32_t field_count)
{
	struct wm_event event = { .size = sizeof(event),
				  .name = name,
				  .kind = 'm',
				  .pid = PID,
				  .tid = tid,
				  .realtime_ns = time_ns,
				  .id = id,
				  .cpu = cpu,
				  .fields = fields,
				  .field_count = field_count };

	return top_count_take(&counted, &event);
}

enum { DEPART = 100, ARRIVE, WAKE, EXIT, FORK, NAME, WAKER, SAMPLE, LOST, COUNT };

static void depart(uint32_t tid, uint64_t time_ns, int cpu, char state)
{
	struct wm_event_field fields[] = {
		{ .name = "is_preempted", .type = WM_TYPE_BOOL, .value.u = state == 'R' },
		{ .name = "state", .type = WM_TYPE_CHAR, .value.i = state },
	};

	take_kernel("switch:depart", DEPART, tid, time_ns, cpu, fields, 2);
}

static void arrive(uint32_t tid, uint64_t time_ns, int cpu)
{
	take_kernel("switch:arrive", ARRIVE, tid, time_ns, cpu, NULL, 0);
}

static void wake(uint32_t tid, uint64_t time_ns, int cpu)
{
	take_kernel("switch:wake", WAKE, tid, time_ns, cpu, NULL, 0);
}

static void sample(uint32_t tid, uint64_t time_ns, uint64_t ip)
{
	struct wm_event_field fields[] = { { .name = "ip", .type = WM_TYPE_PTR, .value.u = ip } };

	take_kernel("sample:cpu-clock", SAMPLE, tid, time_ns, 0, fields, 1);
}

/* What a thread did in the interval, as "running runnable asleep switches". */
static const char *did(uint32_t tid)
{
	static char words[128];
	const struct top_thread *thread = top_threads_get(&counted.threads, tid, 0);

	if (!thread)
		return "none";
	snprintf(words, sizeof(words), "%lld %lld %lld %llu", (long long)thread->ns[TOP_RUNNING],
		 (long long)thread->ns[TOP_READY], (long long)thread->ns[TOP_ASLEEP],
		 (unsigned long long)thread->switches);
	return words;
}

static void interval(uint64_t begin_ns)
{
	counted.threads.begin_ns = counted.threads.end_ns = begin_ns;
}

/* ---- events and spans ---- */

Test(top_count, events_of_one_name_are_counted_in_each_interval, .init = begin, .fini = end)
{
	for (int i = 0; i < 5; i++)
		cr_expect_eq(take("db:query", 'm', 1, 1, 10), TOP_PLAIN);
	take("db:idle", 'i', 2, 1, 11);
	cr_expect_eq(counted.event_count, 2);
	cr_expect_eq(counted.events[0].count, 5);
	cr_expect_str_eq(counted.events[0].name, "db:query");
	cr_expect_eq(counted.event_total, 6);
	cr_expect_eq(take("db:query:sum", 's', 3, 1, 12), TOP_SUM, "it is of hits, and none");
	cr_expect_eq(counted.event_total, 6);
	top_count_next(&counted);
	take("db:query", 'm', 1, 1, 20);
	cr_expect_eq(counted.events[0].count, 1);
	cr_expect_eq(counted.events[1].count, 0);
	cr_expect_eq(counted.event_total, 1);
}

Test(top_count, names_without_room_are_others_and_make_room_later, .init = begin, .fini = end)
{
	for (uint32_t i = 1; i <= TOP_ROWS_MAX + 3; i++) {
		char name[32];

		snprintf(name, sizeof(name), "many:name%u", i);
		take(name, 'm', i, 1, i);
	}
	take("many:unnumbered", 'm', 0, 1, 1);
	cr_expect_eq(counted.event_count, TOP_ROWS_MAX);
	cr_expect_eq(counted.other_events, 4);
	cr_expect_eq(counted.event_total, TOP_ROWS_MAX + 4);
	top_count_next(&counted);
	take("many:last", 'm', TOP_ROWS_MAX + 3, 1, 1);
	take("many:name1", 'm', 1, 1, 1);
	cr_expect_eq(counted.event_count, 2);
	cr_expect_eq(counted.other_events, 0);
	cr_expect_str_eq(counted.events[0].name, "many:last");
}

Test(top_count, spans_nest_cross_and_last_over_intervals, .init = begin, .fini = end)
{
	take("a:outer:begin", 'b', 1, 1, 100);
	take("a:outer:begin", 'b', 1, 1, 200); /* the same, within it */
	take("a:other:begin", 'b', 3, 1, 300);
	take("a:outer:begin", 'b', 1, 2, 310); /* another thread's */
	take("a:outer:end", 'e', 2, 1, 400);   /* the inner one, which crosses a:other */
	cr_assert_eq(counted.span_count, 2);
	cr_expect_str_eq(counted.spans[0]->name, "a:outer");
	cr_expect_eq(counted.spans[0]->times.count, 1);
	cr_expect_eq(counted.spans[0]->sum_ns, 200);
	cr_expect_eq(counted.spans[0]->open, 2);
	top_count_next(&counted);
	take("a:outer:end", 'e', 2, 1, 1100);
	take("a:other:end", 'e', 4, 1, 1300);
	cr_expect_eq(counted.spans[0]->times.count, 1);
	cr_expect_eq(counted.spans[0]->times.max, 1000);
	cr_expect_eq(counted.spans[1]->sum_ns, 1000);
	cr_expect_eq(counted.spans[0]->open, 1);
	take("a:outer:end", 'e', 2, 3, 1400); /* its begin was before all */
	cr_expect_eq(counted.spans[0]->times.count, 1);
	cr_expect_eq(counted.event_total, 0);
}

Test(top_count, gap_forgets_open_spans, .init = begin, .fini = end)
{
	take("a:b:begin", 'b', 1, 1, 100);
	top_count_gap(&counted);
	cr_expect_eq(counted.spans[0]->open, 0);
	take("a:b:end", 'e', 2, 1, 900); /* of one that began in the gap */
	cr_expect_eq(counted.spans[0]->times.count, 0);
}

Test(top_count, endless_spans_are_forgotten_from_the_oldest, .init = begin, .fini = end)
{
	for (uint32_t i = 0; i < TOP_OPEN_MAX + 10; i++)
		take("a:b:begin", 'b', 1, 1, 100 + i);
	cr_expect_eq(counted.spans[0]->open, TOP_OPEN_MAX);
	for (uint32_t i = 0; i < TOP_OPEN_MAX + 10; i++)
		take("a:b:end", 'e', 2, 1, 1000);
	cr_expect_eq(counted.spans[0]->open, 0);
	cr_expect_eq(counted.spans[0]->times.count, TOP_OPEN_MAX);
	cr_expect_eq(counted.spans[0]->times.max, 1000 - 110);
}

Test(top_count, threads_with_open_spans_keep_them_when_others_make_room, .init = begin, .fini = end)
{
	take("a:b:begin", 'b', 1, 1, 100);
	for (uint32_t tid = 2; tid <= TOP_ROWS_MAX; tid++) {
		take("a:b:begin", 'b', 1, tid, 100);
		take("a:b:end", 'e', 2, tid, 101);
	}
	take("a:b:begin", 'b', 1, TOP_ROWS_MAX + 1, 100);
	take("a:b:end", 'e', 2, TOP_ROWS_MAX + 1, 101);
	cr_expect_eq(counted.other_spans, 1);
	top_count_next(&counted);
	take("a:b:begin", 'b', 1, TOP_ROWS_MAX + 1, 200);
	take("a:b:end", 'e', 2, TOP_ROWS_MAX + 1, 201);
	take("a:b:end", 'e', 2, 1, 1100);
	cr_expect_eq(counted.spans[0]->times.count, 2);
	cr_expect_eq(counted.spans[0]->times.max, 1000);
	cr_expect_eq(counted.spans[0]->open, 0);
}

/* ---- the kernel's ---- */

Test(top_count, samples_are_counted_by_process_and_address, .init = begin, .fini = end)
{
	for (int i = 0; i < 3; i++)
		sample(1, 10, 0x401000);
	sample(2, 11, 0x401008);
	cr_expect_eq(counted.sample_total, 4);
	cr_expect_eq(counted.address_count, 2);
	for (size_t i = 0; i < TOP_ADDRESS_ROOM; i++)
		if (counted.addresses[i].samples)
			cr_expect_eq(counted.addresses[i].samples,
				     counted.addresses[i].ip == 0x401000 ? 3 : 1);
	for (uint64_t ip = 1; ip <= TOP_ADDRESS_ROOM; ip++)
		sample(1, 12, ip);
	cr_expect_eq(counted.address_count, TOP_ADDRESS_ROOM / 2);
	cr_expect_eq(counted.other_samples, TOP_ADDRESS_ROOM - (TOP_ADDRESS_ROOM / 2 - 2));
	top_count_next(&counted);
	cr_expect_eq(counted.address_count, 0);
}

Test(top_count, counts_show_what_they_grew_by, .init = begin, .fini = end)
{
	uint64_t values[] = { 1000, 1010, 1040 };

	for (size_t i = 0; i < 3; i++) {
		struct wm_event_field fields[] = {
			{ .name = "count", .type = WM_TYPE_U64, .value.u = values[i] },
			{ .name = "enabled_ns", .type = WM_TYPE_U64, .value.u = 1 },
		};

		cr_expect_eq(take_kernel("count:page-faults", COUNT, 0, i, -1, fields, 2),
			     TOP_COUNT);
	}
	cr_expect_eq(counted.events[0].count, 40);
	cr_expect(counted.events[0].is_grown);
	cr_expect_eq(counted.event_total, 0);
}

Test(top_count, markers_named_as_the_kernels_events_are_markers, .init = begin, .fini = end)
{
	cr_expect_eq(take("switch:depart", 'm', DEPART, 1, 10), TOP_PLAIN);
	cr_expect_eq(take("count:it", 'm', 2, 1, 10), TOP_PLAIN);
	cr_expect_eq(take("task:name", 'm', 3, 1, 10), TOP_PLAIN);
	depart(1, 20, 0, 'S');
	cr_expect_eq(counted.event_total, 3);
	cr_expect_eq(counted.threads.switch_count, 1);
}

Test(top_count, losses_of_the_kernel_are_summed, .init = begin, .fini = end)
{
	struct wm_event_field fields[] = { { .name = "count", .type = WM_TYPE_U64, .value.u = 12 } };

	take_kernel("kernel:lost", LOST, 0, 1, 0, fields, 1);
	take_kernel("kernel:lost", LOST, 0, 2, 1, fields, 1);
	cr_expect_eq(counted.kernel_lost, 24);
}

/* ---- threads ---- */

Test(top_threads, thread_that_changes_its_cpu_is_accounted_in_order, .init = begin, .fini = end)
{
	interval(1000);
	/* as they are read: CPU 0's first */
	arrive(5, 1300, 0);
	depart(5, 1600, 0, 'S');
	depart(5, 1100, 1, 'R');
	wake(5, 1900, 1);
	top_threads_settle(&counted.threads, 2000);
	/* it ran until 1100 and from 1300 to 1600, was ready to 1300 and from 1900 */
	cr_expect_str_eq(did(5), "400 300 300 2");
}

Test(top_threads, states_last_over_intervals, .init = begin, .fini = end)
{
	interval(1000);
	depart(5, 1100, 0, 'S');
	arrive(6, 1100, 0);
	top_threads_settle(&counted.threads, 2000);
	top_count_next(&counted);
	top_threads_settle(&counted.threads, 3000);
	cr_expect_str_eq(did(5), "0 0 1000 0");
	cr_expect_str_eq(did(6), "1000 0 0 0");
}

Test(top_threads, later_switches_belong_to_the_next_interval, .init = begin, .fini = end)
{
	interval(1000);
	arrive(5, 1500, 0);
	depart(5, 2500, 0, 'S');
	top_threads_settle(&counted.threads, 2000);
	cr_expect_str_eq(did(5), "500 0 0 0");
	top_count_next(&counted);
	/* one that comes too late takes back what it had too much */
	depart(5, 1900, 0, 'S');
	arrive(5, 2400, 0);
	top_threads_settle(&counted.threads, 3000);
	cr_expect_str_eq(did(5), "0 0 1000 2");
}

Test(top_threads, woken_stranger_is_no_row, .init = begin, .fini = end)
{
	interval(1000);
	wake(9, 1100, 0);
	top_threads_settle(&counted.threads, 2000);
	cr_expect_str_eq(did(9), "none");
	cr_expect_eq(counted.threads.other_switches, 0);
}

Test(top_threads, sample_shows_that_a_thread_runs, .init = begin, .fini = end)
{
	interval(1000);
	sample(5, 1400, 0x401000);
	top_threads_settle(&counted.threads, 2000);
	cr_expect_str_eq(did(5), "1000 0 0 0");
}

Test(top_threads, exit_ends_a_thread_and_its_number_may_return, .init = begin, .fini = end)
{
	interval(1000);
	arrive(5, 1100, 0);
	take_kernel("task:exit", EXIT, 5, 1400, 0, NULL, 0);
	top_threads_settle(&counted.threads, 2000);
	cr_expect_str_eq(did(5), "300 0 0 0");
	arrive(6, 2000, 0);
	top_threads_settle(&counted.threads, 2100);
	top_count_next(&counted);
	cr_expect_str_eq(did(5), "none");
	cr_expect_str_eq(did(6), "0 0 0 0");
	arrive(5, 2200, 0);
	top_threads_settle(&counted.threads, 2300);
	cr_expect_str_eq(did(5), "100 0 0 0");
}

Test(top_threads, new_thread_has_its_parents_name_until_it_has_one, .init = begin, .fini = end)
{
	struct wm_event_field parent[] = {
		{ .name = "parent_tid", .type = WM_TYPE_I32, .value.i = 5 },
	};
	struct wm_event_field name[] = {
		{ .name = "name", .type = WM_TYPE_STR, .value.run = { "parent", 6 } },
	};

	take_kernel("task:name", NAME, 5, 10, 0, name, 1);
	take_kernel("task:fork", FORK, 6, 20, 0, parent, 1);
	cr_assert_not_null(top_threads_get(&counted.threads, 6, 0));
	cr_expect_str_eq(top_threads_get(&counted.threads, 6, 0)->comm, "parent");
	name[0].value.run.start = "child-has-a-long-name";
	take_kernel("task:name", NAME, 6, 30, 0, name, 1);
	cr_expect_str_eq(top_threads_get(&counted.threads, 6, 0)->comm, "child-has-a-lon");
	/* one that is not recorded has no row, nor has its name among the events */
	cr_expect_eq(take_kernel("task:waker", WAKER, 9, 40, -1, name, 1), TOP_NAME);
	cr_expect_null(top_threads_get(&counted.threads, 9, 0));
	cr_expect_eq(counted.event_total, 0);
}

Test(top_threads, waits_by_schedstat_come_out_of_sleep, .init = begin, .fini = end)
{
	struct top_thread *thread;

	interval(1000);
	depart(5, 1200, 0, 'S');
	arrive(5, 1800, 0);
	top_threads_settle(&counted.threads, 1900);
	thread = top_threads_get(&counted.threads, 5, 0);
	top_thread_waited(thread, 77); /* what it waited before is not of this interval */
	cr_expect_str_eq(did(5), "300 0 600 1");
	top_thread_waited(thread, 77 + 250);
	cr_expect_str_eq(did(5), "300 250 350 1");
	top_thread_waited(thread, 77 + 5000); /* it can't have waited while it ran */
	cr_expect_str_eq(did(5), "300 600 0 1");
}

Test(top_threads, wait_that_lasts_is_accounted_once, .init = begin, .fini = end)
{
	struct top_thread *thread;

	interval(1000);
	depart(5, 1000, 0, 'R');
	top_threads_settle(&counted.threads, 2000);
	thread = top_threads_get(&counted.threads, 5, 0);
	thread->has_times = 1;
	top_thread_waited(thread, 0); /* the kernel adds the wait when it is over */
	cr_expect_str_eq(did(5), "0 1000 0 1");
	top_count_next(&counted);
	arrive(5, 2100, 0);
	depart(5, 2200, 0, 'S');
	top_threads_settle(&counted.threads, 3000);
	top_thread_waited(thread, 1100);
	cr_expect_str_eq(did(5), "100 100 800 1");
}

/* The thread that reads is ready, of course. */
Test(top_threads, sleeper_that_is_ready_when_it_is_read_has_slept, .init = begin, .fini = end)
{
	const struct timespec nap = { .tv_nsec = 1000000 };
	struct top_thread *thread;

	top_threads_times(&counted.threads, getpid(), 1000000000);
	top_threads_next(&counted.threads);
	nanosleep(&nap, NULL);
	top_threads_times(&counted.threads, getpid(), 11000000000);
	thread = top_threads_get(&counted.threads, (uint32_t)gettid(), 0);
	cr_assert_not_null(thread);
	cr_expect_gt(thread->ns[TOP_ASLEEP], 9000000000);
}

Test(top_threads, thread_that_has_not_slept_is_ready, .init = begin, .fini = end)
{
	struct top_thread *thread;
	long sleeps;

	do {
		top_threads_times(&counted.threads, getpid(), 1000000000);
		sleeps = target_status_number(gettid(), "voluntary_ctxt_switches");
		top_threads_next(&counted.threads);
		top_threads_times(&counted.threads, getpid(), 11000000000);
	} while (sleeps != target_status_number(gettid(), "voluntary_ctxt_switches"));
	thread = top_threads_get(&counted.threads, (uint32_t)gettid(), 0);
	cr_assert_not_null(thread);
	cr_expect_eq(thread->ns[TOP_ASLEEP], 0);
	cr_expect_gt(thread->ns[TOP_READY], 9000000000);
}

Test(top_threads, threads_without_room_are_others, .init = begin, .fini = end)
{
	interval(1000);
	for (uint32_t tid = 1; tid <= TOP_THREADS_MAX + 2; tid++)
		depart(tid, 1000 + tid, 0, 'S');
	top_threads_settle(&counted.threads, 20000);
	cr_expect_eq(counted.threads.count, TOP_THREADS_MAX);
	cr_expect_eq(counted.threads.other_switches, 2);
	cr_expect_str_eq(did(TOP_THREADS_MAX + 1), "none");
}

/* ---- tables ---- */

/* Lines of a text, and its longest. */
static unsigned int lines_of(const struct text *text, size_t *longest)
{
	unsigned int lines = 0;
	size_t from = 0;

	*longest = 0;
	for (size_t i = 0; i < text->bytes; i++) {
		if (text->at[i] != '\n')
			continue;
		lines++;
		*longest = i - from > *longest ? i - from : *longest;
		from = i + 1;
	}
	return lines;
}

Test(top_show, tables_fit_into_the_terminal, .init = begin, .fini = end)
{
	struct top_view view = { .what = "a process with a name that is far too long for the line",
				 .left_out = "",
				 .count = &counted,
				 .at_s = 1,
				 .seconds = 1 };
	static const unsigned int sizes[][2] = { { 23, 80 }, { 10, 60 }, { 50, 200 } };

	interval(1000);
	for (uint32_t i = 1; i <= 100; i++) {
		char name[64];

		snprintf(name, sizeof(name), "subsystem:%u\033[2J%s", i,
			 i == 100 ? "-and-a-long-name-behind-it-to-be-cut" : "");
		take(name, 'm', i, i, i);
		depart(i, 1000 + i, 0, 'S');
	}
	take("a:b:begin", 'b', 1000, 1, 100);
	take("a:b:end", 'e', 1001, 1, 1500);
	top_threads_settle(&counted.threads, 2000);
	cr_assert_eq(top_view_sort(&view), 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct text text = { 0 };
		size_t longest;

		view.lines = sizes[i][0];
		view.columns = sizes[i][1];
		top_show(&view, &text);
		cr_expect_leq(lines_of(&text, &longest), view.lines, "%u lines", view.lines);
		cr_expect_leq(longest, view.columns < 80 ? 81 : view.columns + 1, "%zu columns",
			      longest);
		cr_expect(!memchr(text.at, '\033', text.bytes));
		text_release(&text);
	}
	top_view_release(&view);
}

Test(top_show, the_most_frequent_come_first, .init = begin, .fini = end)
{
	struct top_view view = { .count = &counted };

	interval(1000);
	for (int i = 0; i < 3; i++)
		take("a:seldom", 'm', 1, 1, 1);
	for (int i = 0; i < 9; i++)
		take("a:often", 'm', 2, 1, 1);
	arrive(5, 1900, 0);
	arrive(6, 1100, 1);
	top_threads_settle(&counted.threads, 2000);
	cr_assert_eq(top_view_sort(&view), 0);
	cr_expect_str_eq(view.events[0]->name, "a:often");
	cr_expect_eq(view.threads[0]->tid, 6);
	cr_expect_float_eq(top_thread_percent(&view, view.threads[0], TOP_RUNNING), 90.0, 1e-9);
	top_view_release(&view);
}

/* ---- what a target claims ---- */

/* Events of any names, times and threads: each is in one sum, and what is open was begun. */
Test(top_count, any_events_are_counted_once, .init = begin, .fini = end)
{
	static const char *const names[] = { "a:b:begin",   "a:b:end",	     "",
					     ":end",	    "a:b",	     "sample:x",
					     "count:y",	    "switch:depart", "task:name",
					     "switch:wake", "task:fork",     "kernel:lost" };
	static const char kinds[] = "mbei";
	uint64_t seed = 16, plain = 0;

	for (unsigned int i = 0; i < 20000; i++) {
		uint64_t random = sample_random(&seed);
		uint32_t id = (uint32_t)(random % 48);
		struct wm_event_field fields[] = {
			{ .name = "count", .type = WM_TYPE_U64, .value.u = sample_random(&seed) },
			{ .name = "ip", .type = WM_TYPE_STR },
			{ .name = "name", .type = WM_TYPE_U64, .value.u = 1 },
			{ .name = "state", .type = WM_TYPE_CHAR, .value.i = (char)(random >> 8) },
			{ .name = "parent_tid", .type = WM_TYPE_U32, .value.u = random >> 61 },
		};
		struct wm_event event = { .size = sizeof(event),
					  .name = names[id % 12],
					  .kind = kinds[id / 12],
					  .id = id,
					  .pid = (uint32_t)(random >> 16 & 3),
					  .tid = (uint32_t)(random >> 18 & 63),
					  .cpu = (int)(random >> 24 & 3) - 1,
					  .realtime_ns = sample_random(&seed) >>
							 (random >> 26) % 64,
					  .fields = fields,
					  .field_count = (uint32_t)(random >> 32) % 6 };
		int kind = top_count_take(&counted, &event);

		cr_assert_gt(kind, 0);
		plain += kind == TOP_PLAIN;
		if (i % 1000 == 999) {
			uint64_t sum = counted.other_events;

			for (size_t j = 0; j < counted.event_count; j++)
				sum += counted.events[j].is_grown ? 0 : counted.events[j].count;
			cr_assert_eq(counted.event_total, plain);
			cr_assert_eq(sum, plain);
			for (size_t j = 0; j < counted.span_count; j++)
				cr_assert_leq(counted.spans[j]->open, 20000);
			top_threads_settle(&counted.threads, event.realtime_ns);
			top_count_next(&counted);
			plain = 0;
		}
	}
}
