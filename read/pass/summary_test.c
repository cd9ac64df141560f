/* SPDX-License-Identifier: MIT */
#include "read/pass/summary.h"
#include "abi/cost.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/marker.h>

/* Events of the traces below. */
enum {
	QUERY_BEGIN,
	QUERY_END,
	STEP_BEGIN,
	STEP_END,
	BUSY,
	COSTED_BEGIN,
	COSTED_END,
	FREE_END,
	COUNTED_BEGIN,
	COUNTED_END
};

static char dir[64];
static struct trace_writer *writer;
static struct sample sample;
static struct trace_reader *reader;
static struct summary *summary;

static void begin_trace(void)
{
	const struct trace_process about = {
		.pid = 10, .exe = "/bin/x", .hostname = "here", .ticks_hz = 2000000000
	};

	sample_folder(dir);
	sample = (struct sample){ .head = { .pid = 10, .tid = 11, .comm = "x" } };
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	trace_event_add(writer, 0, QUERY_BEGIN, SAMPLE_TYPES(0), "bj\ndb\nquery\na.c\n1\n");
	trace_event_add(writer, 0, QUERY_END, SAMPLE_TYPES(WM_TYPE_U32),
			"ej\ndb\nquery\na.c\n2\nn");
	trace_event_add(writer, 0, STEP_BEGIN, SAMPLE_TYPES(0), "bj\ndb\nstep\na.c\n1\n");
	trace_event_add(writer, 0, STEP_END, SAMPLE_TYPES(0), "ej\ndb\nstep\na.c\n2\n");
	trace_event_add(writer, 0, BUSY, SAMPLE_TYPES(WM_TYPE_STR), "mj\ndb\nbusy\na.c\n3\ns");
	sample_begin(&sample, 1000);
}

static void put(uint32_t id, uint64_t ticks)
{
	sample_event(&sample, id, ticks, 0);
	if (id == QUERY_END)
		sample_u32(&sample, 1);
	if (id == BUSY)
		sample_string(&sample, "why");
}

static void end_packet(void)
{
	cr_assert_eq(sample_write(&sample, writer, 0), 0);
	sample_begin(&sample, sample.ticks);
}

static void sum_up(void)
{
	end_packet();
	cr_assert_eq(trace_writer_close(writer), 0);
	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_assert_eq(summary_make(&summary, reader), 0);
	cr_assert_eq(reader->damages_ever, 0);
}

static void end_trace(void)
{
	summary_free(summary);
	trace_reader_close(reader);
	sample_release(&sample);
	sample_folder_remove(dir);
}

static void put_costed(uint32_t id, uint64_t ticks, uint64_t clock, uint64_t faults)
{
	sample_event(&sample, id, ticks, 0);
	if (id == COSTED_BEGIN)
		sample_string(&sample, "its own field comes first");
	sample_u64(&sample, clock);
	if (id != FREE_END)
		sample_u64(&sample, faults);
}

static double rate_of(const char *name)
{
	for (uint32_t i = 0; i < summary->event_count; i++)
		if (!strcmp(summary->events[i].name, name))
			return summary->events[i].per_second;
	return -1;
}

/* Eleven events within the last of five seconds; those before were overwritten, or discarded. */
static void put_last_second(void)
{
	end_packet();
	sample.head.seq = 5;
	sample.head.discarded = 50;
	sample_begin(&sample, 8000001000);
	for (uint64_t i = 0; i <= 10; i++)
		put(BUSY, 8000001000 + i * 200000000);
	sum_up();
}

Test(summary, rate_of_flight_recorder_is_over_what_its_events_cover, .init = begin_trace,
     .fini = end_trace)
{
	cr_assert_eq(trace_in_memory_add(writer, "events"), 0);
	put_last_second();
	cr_expect_float_eq(rate_of("db:busy"), 11, 0.01);
	cr_expect(summary->is_cyclic);
}

Test(summary, rate_without_flight_recorder_is_over_the_whole_time, .init = begin_trace,
     .fini = end_trace)
{
	put_last_second();
	cr_expect_float_eq(rate_of("db:busy"), 2.2, 0.01);
	cr_expect_not(summary->is_cyclic);
}

static const struct summary_span *span_of(const char *name)
{
	for (uint32_t i = 0; i < summary->span_count; i++)
		if (!strcmp(summary->spans[i].name, name))
			return &summary->spans[i];
	cr_assert_fail("no span %s", name);
	return NULL;
}

static void expect_span(const char *name, uint64_t count, uint64_t unfinished, uint64_t unbegun)
{
	const struct summary_span *span = span_of(name);

	cr_assert_eq(span->times->count, count, "%s: count %lu", name, span->times->count);
	cr_assert_eq(span->unfinished, unfinished, "%s: unfinished %lu", name, span->unfinished);
	cr_assert_eq(span->unbegun, unbegun, "%s: unbegun %lu", name, span->unbegun);
}

/* db:query 1000..1600 has db:step 1100..1300, and db:query 1150..1200 in that. */
static void put_nested(void)
{
	put(QUERY_BEGIN, 1000);
	put(STEP_BEGIN, 1100);
	put(QUERY_BEGIN, 1150);
	put(QUERY_END, 1200);
	put(STEP_END, 1300);
	put(QUERY_END, 1600);
}

Test(summary, self_leaves_out_spans_that_began_in_it, .init = begin_trace, .fini = end_trace)
{
	put_nested();
	sum_up();
	cr_expect_eq(span_of("db:query")->times->sum, 650);
	cr_expect_eq(span_of("db:query")->nested_ticks, 200);
	cr_expect_eq(span_of("db:step")->times->sum, 200);
	cr_expect_eq(span_of("db:step")->nested_ticks, 50);
}

Test(summary, self_of_crossing_spans_is_of_the_one_that_began_last, .init = begin_trace,
     .fini = end_trace)
{
	put(BUSY, 1000);
	put(QUERY_BEGIN, 1000);
	put(STEP_BEGIN, 1100);
	put(QUERY_BEGIN, 1200);
	put(STEP_END, 1500);  /* 100 of its own, before the inner query */
	put(QUERY_END, 1700); /* the inner one: all of it */
	put(QUERY_END, 2000); /* 100 before the step, 300 after the inner query */
	sum_up();
	cr_expect_eq(span_of("db:step")->nested_ticks, 400 - 100);
	cr_expect_eq(span_of("db:query")->nested_ticks, 1000 - 400);
}

Test(summary, events_are_counted_by_name_and_thread)
{
	begin_trace();
	put(BUSY, 1001);
	put(BUSY, 1002);
	end_packet();
	sample.head.tid = 12;
	sample.head.instance = 1;
	sample.head.seq = 0;
	put(BUSY, 1003);
	end_packet();
	sample.head.tid = 12; /* the same thread in a signal handler */
	sample.head.instance = 2;
	sample.head.depth = 1;
	sample.head.seq = 0;
	put(BUSY, 1004);
	sum_up();
	cr_assert_str_eq(summary->events[0].name, "db:busy");
	cr_assert_eq(summary->events[0].count, 4);
	cr_assert_eq(summary->events[0].threads, 2);
	cr_assert_eq(summary->events[1].count, 0);
	cr_assert_eq(summary->event_count, 5);
	cr_assert_eq(summary->total, 4);
	cr_assert_eq(summary->threads, 2);
	cr_assert_eq(summary->end_ns - summary->begin_ns, 2);
	cr_assert_eq(summary->streams_lossy, 0);
	end_trace();
}

Test(summary, children_in_the_store_of_their_parent_are_processes)
{
	begin_trace();
	put(BUSY, 1001);
	for (uint32_t i = 0; i < 4; i++) { /* two children of two threads, side by side */
		end_packet();
		sample.head.pid = 20 + i % 2;
		sample.head.tid = 20 + i;
		sample.head.instance = 1 + i;
		sample.head.seq = 0;
		put(BUSY, 1002 + i);
	}
	sum_up();
	cr_assert_eq(summary->events[0].count, 5);
	cr_assert_eq(summary->events[0].threads, 5);
	cr_assert_eq(summary->events[0].processes, 3);
	cr_assert_eq(summary->threads, 5);
	end_trace();
}

Test(summary, fields_of_other_names_count_no_thread_twice)
{
	begin_trace();
	trace_event_add(writer, 0, BUSY + 1, SAMPLE_TYPES(WM_TYPE_STR), "mj\ndb\nbusy\na.c\n4\nt");
	put(BUSY, 1001);
	sample_event(&sample, BUSY + 1, 1002, 0);
	sample_string(&sample, "why");
	put(BUSY, 1003);
	sum_up();
	cr_assert_str_eq(summary->events[0].name, "db:busy");
	cr_assert_eq(summary->events[0].count, 3);
	cr_assert_eq(summary->events[0].threads, 1);
	cr_assert_eq(summary->events[0].processes, 1);
	cr_assert_eq(summary->event_count, 5);
	cr_assert_eq(summary->total, 3);
	end_trace();
}

Test(summary, spans_nest)
{
	const struct summary_span *query, *step;

	begin_trace();
	put(QUERY_BEGIN, 2000);
	put(STEP_BEGIN, 2100);
	put(STEP_BEGIN, 2110); /* in itself */
	put(STEP_END, 2120);
	put(STEP_END, 2200);
	end_packet(); /* a span may cross packets */
	put(QUERY_END, 3000);
	sum_up();
	expect_span("db:query", 1, 0, 0);
	expect_span("db:step", 2, 0, 0);
	query = span_of("db:query");
	step = span_of("db:step");
	cr_assert_eq(query->times->min, 1000);
	cr_assert_eq(query->times->max, 1000);
	cr_assert_eq(step->times->min, 10);
	cr_assert_eq(step->times->max, 100);
	cr_assert_eq(step->ticks_hz, 2000000000);
	end_trace();
}

Test(summary, spans_that_cross_are_matched_by_name)
{
	begin_trace();
	for (uint64_t i = 0; i < 10; i++) {
		put(QUERY_BEGIN, 2000 + 100 * i);
		put(STEP_BEGIN, 2010 + 100 * i);
		put(QUERY_END, 2030 + 100 * i);
		put(STEP_END, 2060 + 100 * i);
	}
	sum_up();
	expect_span("db:query", 10, 0, 0);
	expect_span("db:step", 10, 0, 0);
	cr_assert_eq(span_of("db:query")->times->max, 30);
	cr_assert_eq(span_of("db:step")->times->min, 50);
	cr_assert_eq(span_of("db:step")->times->max, 50);
	end_trace();
}

Test(summary, many_spans_without_end_hide_no_others)
{
	enum { COUNT = 300000 };

	begin_trace();
	for (uint64_t i = 0; i < COUNT; i++) {
		put(QUERY_BEGIN, 2000 + 4 * i);
		put(STEP_BEGIN, 2001 + 4 * i);
		put(QUERY_END, 2002 + 4 * i);
	}
	sum_up();
	expect_span("db:query", COUNT, 0, 0);
	expect_span("db:step", 0, COUNT, 0);
	end_trace();
}

Test(summary, halves_of_spans_are_counted_apart)
{
	begin_trace();
	put(STEP_END, 2000); /* began before the recording */
	put(QUERY_BEGIN, 2010);
	put(STEP_BEGIN, 2020);
	put(QUERY_END, 2030);	/* the step never ends */
	put(QUERY_BEGIN, 2040); /* continues after the recording */
	sum_up();
	expect_span("db:step", 0, 1, 1);
	expect_span("db:query", 1, 1, 0);
	end_trace();
}

Test(summary, a_gap_leaves_no_span_measured_across_it)
{
	begin_trace();
	put(QUERY_BEGIN, 2000);
	end_packet();
	sample.head.discarded = 2; /* the end and the next begin, maybe */
	put(QUERY_END, 9000);
	put(STEP_BEGIN, 9001);
	end_packet();
	sample.head.seq += 3;
	put(STEP_END, 9002);
	sum_up();
	expect_span("db:query", 0, 1, 1);
	expect_span("db:step", 0, 1, 1);
	cr_assert_eq(summary->discarded, 2);
	cr_assert_eq(summary->missing_packets, 3);
	cr_assert_eq(summary->streams_lossy, 1);
	end_trace();
}

Test(summary, spans_of_two_threads_do_not_mix)
{
	begin_trace();
	put(QUERY_BEGIN, 2000);
	end_packet();
	sample.head.tid = 12;
	sample.head.instance = 1;
	sample.head.seq = 0;
	put(QUERY_END, 3000);
	sum_up();
	expect_span("db:query", 0, 1, 1);
	end_trace();
}

/* A thread has a stream for each stack that its hits may be on. */
static void put_halves(uint32_t discarded)
{
	begin_trace();
	for (uint64_t i = 0; i < 10; i++) {
		put(QUERY_BEGIN, 2000 + 100 * i);
		put(STEP_END, 2050 + 100 * i);
	}
	end_packet();
	sample.head.depth = 4;
	sample.head.instance = 1;
	sample.head.seq = 0;
	sample.head.discarded = discarded;
	sample_begin(&sample, 2000);
	for (uint64_t i = 0; i < 10; i++) {
		put(STEP_BEGIN, 2020 + 100 * i);
		put(QUERY_END, 2030 + 100 * i);
	}
	sum_up();
}

Test(summary, span_may_begin_in_one_stream_of_its_thread_and_end_in_another)
{
	put_halves(0);
	expect_span("db:query", 10, 0, 0);
	expect_span("db:step", 10, 0, 0);
	cr_expect_eq(span_of("db:query")->times->min, 30);
	cr_expect_eq(span_of("db:query")->times->max, 30);
	cr_expect_eq(span_of("db:step")->times->max, 30);
	end_trace();
}

Test(summary, streams_with_losses_share_no_spans)
{
	put_halves(3);
	expect_span("db:query", 0, 10, 10);
	expect_span("db:step", 0, 10, 10);
	end_trace();
}

Test(summary, deep_recursion_is_measured_from_the_inside)
{
	enum { DEPTH = 100000 };

	begin_trace();
	for (uint64_t i = 0; i < DEPTH; i++)
		put(STEP_BEGIN, 2000 + i);
	for (uint64_t i = 0; i < DEPTH; i++)
		put(STEP_END, 2000 + DEPTH + i);
	sum_up();
	expect_span("db:step", DEPTH, 0, 0);
	cr_assert_eq(span_of("db:step")->times->min, 1);
	cr_assert_eq(span_of("db:step")->times->max, 2 * DEPTH - 1);
	end_trace();
}

Test(summary, an_empty_trace_sums_up_to_nothing)
{
	begin_trace();
	cr_assert_eq(trace_writer_close(writer), 0);
	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_assert_eq(summary_make(&summary, reader), 0);
	cr_assert_eq(summary->total, 0);
	cr_assert_eq(summary->end_ns, 0);
	end_trace();
}

Test(histogram, quantiles_are_within_a_thirtysecond)
{
	static struct histogram histogram;
	static uint64_t values[10001];
	uint64_t seed = 5;

	for (unsigned int i = 0; i < 10001; i++) {
		values[i] = sample_random(&seed) >> (sample_random(&seed) % 60);
		summary_time_add(&histogram, values[i]);
	}
	for (unsigned int i = 1; i < 10001; i++) /* insertion is quick enough here */
		for (unsigned int j = i; j && values[j - 1] > values[j]; j--) {
			uint64_t swap = values[j];

			values[j] = values[j - 1];
			values[j - 1] = swap;
		}
	cr_assert_eq(histogram.min, values[0]);
	cr_assert_eq(histogram.max, values[10000]);
	for (unsigned int percent = 1; percent < 100; percent++) {
		uint64_t exact = values[(uint64_t)(10001 * (percent / 100.0))];
		uint64_t found = summary_quantile(&histogram, percent / 100.0);
		uint64_t apart = found > exact ? found - exact : exact - found;

		cr_assert_leq(apart, exact / 32 + 1, "%u%%: %lu, not %lu", percent, found, exact);
	}
	cr_assert_eq(summary_times_between(&histogram, 0, UINT64_MAX), 10001);
	cr_assert_eq(summary_times_between(&histogram, 0, 1 << 20) +
			     summary_times_between(&histogram, 1 << 20, UINT64_MAX),
		     10001);
}

Test(histogram, the_ends_of_the_range_are_held)
{
	static struct histogram histogram;

	cr_assert_eq(summary_quantile(&histogram, 0.5), 0);
	summary_time_add(&histogram, UINT64_MAX);
	cr_assert_eq(summary_quantile(&histogram, 0.5), UINT64_MAX);
	summary_time_add(&histogram, 0);
	cr_assert_eq(summary_quantile(&histogram, 0), 0);
	cr_assert_eq(summary_quantile(&histogram, 1), UINT64_MAX);
	cr_assert_eq(summary_times_between(&histogram, 0, 1), 1);
}

static void declare_costed(void)
{
	trace_event_add(writer, 0, COSTED_BEGIN,
			SAMPLE_TYPES(WM_TYPE_STR, WM_TYPE_U64, WM_TYPE_U64),
			"bj2\ndb\ncosted\na.c\n1\ns,count_task_clock,count_page_faults");
	trace_event_add(writer, 0, COSTED_END, SAMPLE_TYPES(WM_TYPE_U64, WM_TYPE_U64),
			"ej2\ndb\ncosted\na.c\n2\ncount_task_clock,count_page_faults");
	trace_event_add(writer, 0, FREE_END, SAMPLE_TYPES(WM_TYPE_U64),
			"ej1\ndb\ncosted\na.c\n3\ncount_task_clock");
}

static void expect_cost(uint32_t place, const char *name, uint64_t spans, uint64_t sum,
			uint64_t max, uint64_t unavailable)
{
	const struct summary_span *span = span_of("db:costed");
	const struct summary_cost *cost = &span->costs[place];

	cr_assert_eq(span->cost_count, 2);
	cr_assert_str_eq(cost->name, name);
	cr_assert_eq(cost->spans, spans, "%s: %lu spans", name, cost->spans);
	cr_assert_eq(cost->sum, sum, "%s: %lu in all", name, cost->sum);
	cr_assert_eq(cost->max, max, "%s: %lu at most", name, cost->max);
	cr_assert_eq(cost->unavailable, unavailable, "%s: %lu without", name, cost->unavailable);
}

Test(summary, costs_of_spans_are_differences_and_nested_ones_are_within)
{
	begin_trace();
	declare_costed();
	put_costed(COSTED_BEGIN, 1001, 1000, 5);
	put_costed(COSTED_BEGIN, 1002, 1100, 6);
	put_costed(COSTED_END, 1003, 1300, 6);
	put_costed(COSTED_END, 1004, 2000, 15);
	put(QUERY_BEGIN, 1005);
	put(QUERY_END, 1006);
	sum_up();
	expect_cost(0, "task-clock", 2, 1200, 1000, 0);
	expect_cost(1, "page-faults", 2, 10, 10, 0);
	cr_assert_str_eq(span_of("db:costed")->costs[0].unit, "ns");
	cr_assert_str_eq(span_of("db:costed")->costs[1].unit, "");
	cr_assert_eq(span_of("db:query")->cost_count, 0);
	end_trace();
}

/* An end without the count, a value that is not there, one that ran back: no cost, and never 0. */
Test(summary, costs_that_are_missing_are_counted_apart)
{
	begin_trace();
	declare_costed();
	put_costed(COSTED_BEGIN, 1001, 1000, 5);
	put_costed(FREE_END, 1002, 1010, 0);
	put_costed(COSTED_BEGIN, 1003, 1000, UINT64_MAX);
	put_costed(COSTED_END, 1004, UINT64_MAX, 7);
	put_costed(COSTED_BEGIN, 1005, 1000, 7);
	put_costed(COSTED_END, 1006, 900, 7);
	sum_up();
	expect_cost(0, "task-clock", 1, 10, 10, 2);
	expect_cost(1, "page-faults", 1, 0, 0, 2);
	expect_span("db:costed", 3, 0, 0);
	end_trace();
}

static void put_counted(uint32_t id, uint64_t ticks, uint64_t cycles, uint64_t uncounted_ns)
{
	sample_event(&sample, id, ticks, 0);
	sample_u64(&sample, 10);
	sample_u64(&sample, cycles);
	sample_u64(&sample, uncounted_ns);
}

/* Another had the counter for a time: what was counted is too little, and no cost of the span. */
Test(summary, costs_counted_in_part_are_left_out)
{
	const struct summary_cost *costs;
	static const char fields[] = "count_task_clock,count_cycles,count_uncounted";
	char text[128];

	begin_trace();
	for (uint32_t id = COUNTED_BEGIN; id <= COUNTED_END; id++) {
		snprintf(text, sizeof(text), "%cj3\ndb\ncosted\na.c\n1\n%s",
			 id == COUNTED_BEGIN ? 'b' : 'e', fields);
		trace_event_add(writer, 0, id, SAMPLE_TYPES(WM_TYPE_U64, WM_TYPE_U64, WM_TYPE_U64),
				text);
	}
	put_counted(COUNTED_BEGIN, 1001, 100, 5000);
	put_counted(COUNTED_END, 1002, 400, 5000);
	put_counted(COUNTED_BEGIN, 1003, 500, 5000);
	put_counted(COUNTED_END, 1004, 510, 5001);
	put_counted(COUNTED_BEGIN, 1005, UINT64_MAX, UINT64_MAX);
	put_counted(COUNTED_END, 1006, 700, 5001);
	sum_up();
	costs = span_of("db:costed")->costs;
	cr_assert_eq(costs[0].spans, 3, "no counter is read for it");
	cr_assert_eq(costs[1].kind, COST_CYCLES);
	cr_assert_eq(costs[1].spans, 1);
	cr_assert_eq(costs[1].sum, 300);
	cr_assert_eq(costs[1].partial, 1);
	cr_assert_eq(costs[1].unavailable, 1);
	cr_assert_eq(costs[2].sum, 1);
	end_trace();
}

/* More counts than there are fields, or one that is no u64, is no event class. */
Test(summary, wrong_number_of_costs_is_refused)
{
	begin_trace();
	cr_assert_eq(trace_event_add(writer, 0, COSTED_END, SAMPLE_TYPES(WM_TYPE_U64),
				     "ej2\ndb\ncosted\na.c\n2\ncount_task_clock"),
		     -EINVAL);
	cr_assert_eq(trace_event_add(writer, 0, COSTED_END, SAMPLE_TYPES(WM_TYPE_U32),
				     "ej1\ndb\ncosted\na.c\n2\ncount_task_clock"),
		     -EINVAL);
	sum_up();
	end_trace();
}
