/* SPDX-License-Identifier: MIT */
#include "read/spans/span_calls.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <waymark/marker.h>

enum { GET_BEGIN, GET_END, PART_BEGIN, PART_END };

static char dir[64];
static struct trace_writer *writer;
static struct sample sample;
static struct trace_reader *reader;
static struct summary *summary;
static struct span_calls calls;

static void begin(void)
{
	const struct trace_process about = {
		.pid = 10, .exe = "/bin/x", .hostname = "here", .ticks_hz = 2000000000
	};

	sample_folder(dir);
	sample = (struct sample){ .head = { .pid = 10, .tid = 11, .comm = "x" } };
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	trace_event_add(writer, 0, GET_BEGIN, SAMPLE_TYPES(WM_TYPE_STR, WM_TYPE_U32),
			"bj\nweb\nget\na.c\n1\nwhat, id");
	trace_event_add(writer, 0, GET_END, SAMPLE_TYPES(WM_TYPE_U32),
			"ej\nweb\nget\na.c\n2\nstatus");
	trace_event_add(writer, 0, PART_BEGIN, SAMPLE_TYPES(0), "bj\nweb\npart\na.c\n1\n");
	trace_event_add(writer, 0, PART_END, SAMPLE_TYPES(0), "ej\nweb\npart\na.c\n2\n");
	sample_begin(&sample, 1000);
}

static void next_packet(void)
{
	cr_assert_eq(sample_write(&sample, writer, 0), 0);
	sample_begin(&sample, sample.ticks);
}

/* A span of so many ticks, with a part in it of half of them. */
static void get(const char *what, uint32_t status, uint64_t ticks)
{
	uint64_t at = sample.ticks;

	sample_event(&sample, GET_BEGIN, at, 0);
	sample_string(&sample, what);
	sample_u32(&sample, 7);
	sample_event(&sample, PART_BEGIN, at + 1, 0);
	next_packet();
	sample_event(&sample, PART_END, at + 1 + ticks / 2, 0);
	sample_event(&sample, GET_END, at + ticks, 0);
	sample_u32(&sample, status);
}

static void sum_up(const struct span_wish *wish)
{
	next_packet();
	cr_assert_eq(trace_writer_close(writer), 0);
	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	calls = (struct span_calls){ .wish = *wish };
	cr_assert_eq(summary_make_calls(&summary, reader, &calls), 0);
	cr_assert_eq(reader->damages_ever, 0);
}

static void end(void)
{
	span_calls_release(&calls);
	summary_free(summary);
	trace_reader_close(reader);
	sample_release(&sample);
	sample_folder_remove(dir);
}

TestSuite(span_calls, .init = begin, .fini = end);

static const struct span_group *group(const char *first, const char *second)
{
	for (size_t i = 0; i < calls.group_count; i++) {
		const struct span_group *one = &calls.groups[i];

		if (one->values[0] && !strcmp(one->values[0], first) && one->values[1] &&
		    !strcmp(one->values[1], second))
			return one;
	}
	cr_assert_fail("no group %s, %s of %zu", first, second, calls.group_count);
	return NULL;
}

Test(span_calls, groups_are_by_fields_of_both_ends)
{
	get("order", 200, 100);
	get("order", 200, 300);
	get("order", 404, 50);
	get("search", 200, 10);
	sum_up(&(struct span_wish){
		.name = "get", .has_groups = 1, .by = { "what", "status" }, .by_count = 2 });
	cr_assert_eq(calls.group_count, 3);
	cr_expect_eq(group("order", "200")->times->count, 2);
	cr_expect_eq(group("order", "200")->times->sum, 400);
	cr_expect_eq(group("order", "200")->self_ticks, 200);
	cr_expect_eq(group("order", "404")->times->max, 50);
	cr_expect_eq(group("search", "200")->times->count, 1);
	cr_expect(span_calls_has(reader, "status"));
	cr_expect(span_calls_has(reader, "thread"));
	cr_expect_not(span_calls_has(reader, "statu"));
}

Test(span_calls, groups_are_bounded_and_the_others_are_one)
{
	char text[16];

	for (unsigned int i = 0; i < SPAN_GROUPS_MAX + 50; i++) {
		snprintf(text, sizeof(text), "%u", i);
		get(text, 200, 10);
	}
	sum_up(&(struct span_wish){
		.name = "web:get", .has_groups = 1, .by = { "what", "thread" }, .by_count = 2 });
	cr_assert_eq(calls.group_count, SPAN_GROUPS_MAX + 1);
	cr_expect_eq(group("0", "x-11")->times->count, 1);
	cr_expect_eq(group("(other)", "(other)")->times->count, 50);
}

Test(span_calls, callers_and_callees_are_by_nesting)
{
	get("order", 200, 100);
	get("order", 200, 300);
	sum_up(&(struct span_wish){ .edges = "web:part" });
	cr_assert_eq(calls.edge_count, 1);
	cr_expect_str_eq(summary->spans[calls.edges[0].caller].name, "web:get");
	cr_expect_str_eq(summary->spans[calls.edges[0].callee].name, "web:part");
	cr_expect_eq(calls.edges[0].count, 2);
	cr_expect_eq(calls.edges[0].ticks, 200);
	cr_expect_eq(calls.edges[0].max_ticks, 150);
}

Test(span_calls, the_outermost_span_has_no_caller)
{
	get("order", 200, 100);
	sum_up(&(struct span_wish){ .edges = "get" });
	cr_assert_eq(calls.edge_count, 2, "part in it, and it in none");
	cr_expect_eq(calls.edges[1].caller, SPAN_NONE);
	cr_expect_eq(calls.edges[1].self_ticks, 50);
}

Test(span_calls, the_slowest_are_kept_and_read_again)
{
	const struct trace_class *class;
	const uint8_t *fields;

	for (uint64_t i = 0; i < 100; i++)
		get(i == 60 ? "worst" : "good", (uint32_t)i,
		    1000 + 10 * (i * 37 % 100) + 5000 * (i == 60));
	sum_up(&(struct span_wish){ .name = "get", .slowest = 5, .min_ns = 600 });
	cr_assert_eq(calls.slow_count, 5);
	for (size_t i = 1; i < 5; i++)
		cr_expect_leq(calls.slow[i].ns, calls.slow[i - 1].ns);
	cr_expect_eq(calls.slow[4].ns, (1000 + 10 * 96) / 2, "half a tick for each");
	cr_expect_eq(calls.fitting, 80);
	cr_assert_eq(span_place_read(reader, &calls.slow[0].begin, &class, &fields), 0);
	cr_expect_str_eq(class->name, "web:get:begin");
	cr_expect_str_eq((const char *)fields + 1, "worst");
	cr_assert_eq(span_place_read(reader, &calls.slow[0].end, &class, &fields), 0);
	cr_expect_str_eq(class->name, "web:get:end");
	cr_expect_eq(load_u32(fields), 60);
	calls.slow[0].end.at++;
	cr_expect_lt(span_place_read(reader, &calls.slow[0].end, &class, &fields), 0);
}

Test(span_calls, other_threads_are_left_out)
{
	get("order", 200, 100);
	sum_up(&(struct span_wish){ .tid = 12, .has_groups = 1, .slowest = 1 });
	cr_expect_eq(calls.group_count, 0);
	cr_expect_eq(calls.slow_count, 0);
}
