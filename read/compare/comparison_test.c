/* SPDX-License-Identifier: MIT */
#include "read/compare/comparison.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include <waymark/marker.h>

#define SPANS 4000
#define APART_NS 1000000

enum { QUERY_BEGIN, QUERY_END, BUSY };

/* One of two traces. */
static struct side {
	char dir[64];
	struct trace_writer *writer;
	struct sample sample;
	struct trace_reader *reader;
	struct summary *summary;
	uint64_t hz, seed;
} sides[2];

static struct comparison comparison;

static void side_begin(struct side *side, uint64_t hz, uint64_t seed)
{
	const struct trace_process about = {
		.pid = 10, .exe = "/bin/x", .hostname = "here", .ticks_hz = hz
	};

	*side = (struct side){ .hz = hz, .seed = seed };
	sample_folder(side->dir);
	side->sample = (struct sample){ .head = { .pid = 10, .tid = 11, .comm = "x" } };
	cr_assert_eq(trace_writer_open(&side->writer, side->dir), 0);
	cr_assert_eq(trace_process_add(side->writer, &about), 0);
	trace_clock_set(side->writer, hz, 0, 1700000000000000000);
	trace_event_add(side->writer, 0, QUERY_BEGIN, SAMPLE_TYPES(0), "bj\ndb\nquery\na.c\n1\n");
	trace_event_add(side->writer, 0, QUERY_END, SAMPLE_TYPES(0), "ej\ndb\nquery\na.c\n2\n");
	trace_event_add(side->writer, 0, BUSY, SAMPLE_TYPES(0), "mj\ndb\nbusy\na.c\n3\n");
	sample_begin(&side->sample, 0);
}

static double side_random(struct side *side)
{
	return (double)(sample_random(&side->seed) >> 11) / 0x1p53;
}

static void put(struct side *side, uint32_t id, double ns)
{
	sample_event(&side->sample, id, (uint64_t)(ns * (double)side->hz / 1e9), 0);
}

/* A query of that length begins then. */
static void query(struct side *side, double at_ns, double ns)
{
	put(side, QUERY_BEGIN, at_ns);
	put(side, QUERY_END, at_ns + ns);
}

static void sides_compare(void)
{
	for (int i = 0; i < 2; i++) {
		struct side *side = &sides[i];

		cr_assert_eq(sample_write(&side->sample, side->writer, 0), 0);
		cr_assert_eq(trace_writer_close(side->writer), 0);
		cr_assert_eq(trace_reader_open(&side->reader, side->dir), 0);
		cr_assert_eq(summary_make_sliced(&side->summary, side->reader), 0);
		cr_assert_eq(side->reader->damages_ever, 0);
	}
	cr_assert_eq(comparison_make(&comparison, sides[0].summary, sides[1].summary), 0);
}

static void sides_release(void)
{
	comparison_release(&comparison);
	for (int i = 0; i < 2; i++) {
		summary_free(sides[i].summary);
		trace_reader_close(sides[i].reader);
		sample_release(&sides[i].sample);
		sample_folder_remove(sides[i].dir);
	}
}

static const struct compared *row_of(const struct compared *rows, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(rows[i].name, name))
			return &rows[i];
	cr_assert_fail("no row %s", name);
	return NULL;
}

static const struct compared *span(void)
{
	return row_of(comparison.spans, comparison.span_count, "db:query");
}

static const struct compared *event(const char *name)
{
	return row_of(comparison.events, comparison.event_count, name);
}

/* Lengths around 10 us, between a half and twice that. */
static double length_of(struct side *side)
{
	return 10000 * exp2(2 * side_random(side) - 1);
}

static void steady(struct side *side, uint64_t hz, uint64_t seed, double factor)
{
	side_begin(side, hz, seed);
	for (int i = 0; i < SPANS; i++)
		query(side, (double)i * APART_NS, factor * length_of(side));
}

Test(comparison, same_program_has_no_change, .fini = sides_release)
{
	steady(&sides[0], 1000000000, 1, 1);
	steady(&sides[1], 1000000000, 2, 1);
	sides_compare();
	cr_expect_eq(span()->change, COMPARED_SAME);
	cr_expect_float_eq(span()->ratio, 1, 0.05);
	cr_expect(span()->low < 1 && span()->high > 1);
	cr_expect_eq(comparison.spans_changed, 0);
	cr_expect_eq(comparison.events_changed, 0);
}

Test(comparison, slower_span_has_its_ratio_within_the_bounds, .fini = sides_release)
{
	steady(&sides[0], 1000000000, 1, 1);
	steady(&sides[1], 1000000000, 2, 1.3);
	sides_compare();
	cr_expect_eq(span()->change, COMPARED_MORE);
	cr_expect(span()->low < 1.3 && span()->high > 1.3, "%f to %f", span()->low, span()->high);
	cr_expect(span()->high - span()->low < 0.1);
	/* the mean of 2^x, x from -1 to 1, is 1.082 */
	cr_expect_float_eq(span()->added, 0.3 * 10820 * SPANS, 2e6, "%f", span()->added);
	cr_expect_eq(comparison.spans_changed, 1);
	cr_expect_eq(event("db:query:begin")->change, COMPARED_SAME);
}

Test(comparison, faster_span_is_faster, .fini = sides_release)
{
	steady(&sides[0], 1000000000, 1, 1.3);
	steady(&sides[1], 1000000000, 2, 1);
	sides_compare();
	cr_expect_eq(span()->change, COMPARED_LESS);
	cr_expect(span()->added < 0);
}

Test(comparison, small_difference_is_no_change, .fini = sides_release)
{
	steady(&sides[0], 1000000000, 1, 1);
	steady(&sides[1], 1000000000, 1, 1.04);
	sides_compare();
	cr_expect_eq(span()->change, COMPARED_SAME);
}

Test(comparison, clocks_of_other_rates_are_compared_in_time, .fini = sides_release)
{
	steady(&sides[0], 1000000000, 1, 1);
	steady(&sides[1], 3700000000, 1, 1);
	sides_compare();
	cr_expect_eq(span()->change, COMPARED_SAME);
	cr_expect_float_eq(span()->ratio, 1, 0.001, "%f %d", span()->ratio, span()->change);
}

/* Each 62 ms a neighbour takes another part of the machine: calls are not independent. */
static void noisy(struct side *side, uint64_t seed)
{
	double factor = 1;

	side_begin(side, 1000000000, seed);
	for (int i = 0; i < SPANS; i++) {
		if (i % 62 == 0)
			factor = exp2(2 * side_random(side) - 1);
		query(side, (double)i * APART_NS, factor * length_of(side));
	}
}

Test(comparison, noise_that_calls_share_is_no_change)
{
	for (uint64_t seed = 1; seed < 40; seed += 2) {
		noisy(&sides[0], seed);
		noisy(&sides[1], seed + 1);
		sides_compare();
		cr_expect_eq(span()->change, COMPARED_SAME, "seed %lu: %d %f %f to %f p %g", seed,
			     span()->change, span()->ratio, span()->low, span()->high, span()->p);
		sides_release();
	}
}

/* The program begins with slow calls. */
static void phased(struct side *side, uint64_t seed, double factor)
{
	side_begin(side, 1000000000, seed);
	for (int i = 0; i < SPANS; i++)
		query(side, (double)i * APART_NS,
		      factor * (i < SPANS / 8 ? 10 : 1) * length_of(side));
}

Test(comparison, phases_are_no_noise, .fini = sides_release)
{
	phased(&sides[0], 1, 1);
	phased(&sides[1], 2, 1.5);
	sides_compare();
	cr_expect_eq(span()->change, COMPARED_MORE, "%f", span()->p);
}

Test(comparison, few_long_calls_are_slower_at_times, .fini = sides_release)
{
	steady(&sides[0], 1000000000, 1, 1);
	side_begin(&sides[1], 1000000000, 2);
	for (int i = 0; i < SPANS; i++)
		query(&sides[1], (double)i * APART_NS,
		      (i % 200 == 7 ? 45 : 1) * length_of(&sides[1]));
	sides_compare();
	cr_expect_eq(span()->change, COMPARED_MORE_AT_TIMES, "%d %f %f", span()->change,
		     span()->ratio, span()->p);
	cr_expect_float_eq(span()->ratio, 1, 0.05);
}

Test(comparison, few_calls_are_no_change, .fini = sides_release)
{
	for (int i = 0; i < 2; i++) {
		side_begin(&sides[i], 1000000000, 1);
		for (int j = 0; j < COMPARE_CALLS_MIN - 1; j++)
			query(&sides[i], (double)j * APART_NS, i ? 90000 : 1000);
	}
	sides_compare();
	cr_expect_eq(span()->change, COMPARED_FEW);
	cr_expect_eq(comparison.spans_changed, 0);
}

/* Sums over slices don't show how far they vary. */
Test(comparison, calls_in_one_slice_vary_as_independent_ones, .fini = sides_release)
{
	for (int i = 0; i < 2; i++) {
		side_begin(&sides[i], 1000000000, 1 + (uint64_t)i);
		for (int j = 0; j < 25; j++)
			query(&sides[i], (double)j * 100000, (i ? 1.1 : 1) * length_of(&sides[i]));
		put(&sides[i], BUSY, 1e9);
	}
	sides_compare();
	cr_expect_eq(span()->change, COMPARED_SAME);
	cr_expect(span()->high / span()->low > 1.3);
}

Test(comparison, calls_of_one_length_are_compared, .fini = sides_release)
{
	for (int i = 0; i < 2; i++) {
		side_begin(&sides[i], 1000000000, 1);
		for (int j = 0; j < 100; j++)
			query(&sides[i], (double)j * APART_NS, i ? 2000 : 1000);
	}
	sides_compare();
	cr_expect_eq(span()->change, COMPARED_MORE);
	cr_expect_float_eq(span()->ratio, 2, 1e-6);
}

static void busy(struct side *side, int count, double apart_ns)
{
	side_begin(side, 1000000000, 1);
	for (int i = 0; i < count; i++)
		put(side, BUSY, (double)i * apart_ns);
}

Test(comparison, event_twice_as_often_is_more_frequent, .fini = sides_release)
{
	busy(&sides[0], 1000, 2000000);
	busy(&sides[1], 2000, 1000000);
	sides_compare();
	cr_expect_eq(event("db:busy")->change, COMPARED_MORE);
	cr_expect_float_eq(event("db:busy")->ratio, 2, 0.01);
	cr_expect_float_eq(event("db:busy")->added, 500, 1);
}

Test(comparison, longer_recording_has_no_more_frequent_events, .fini = sides_release)
{
	busy(&sides[0], 1000, 1000000);
	busy(&sides[1], 2000, 1000000);
	sides_compare();
	cr_expect_eq(event("db:busy")->change, COMPARED_SAME);
}

Test(comparison, same_work_in_more_time_has_no_less_frequent_events, .fini = sides_release)
{
	busy(&sides[0], 1000, 1000000);
	busy(&sides[1], 1000, 2000000);
	sides_compare();
	cr_expect_eq(event("db:busy")->change, COMPARED_SAME);
}

Test(comparison, what_a_trace_lacks_is_new_or_gone, .fini = sides_release)
{
	busy(&sides[0], 100, 1000000);
	steady(&sides[1], 1000000000, 1, 1);
	sides_compare();
	cr_expect_eq(event("db:busy")->change, COMPARED_GONE);
	cr_expect_eq(event("db:query:begin")->change, COMPARED_NEW);
	cr_expect_eq(span()->change, COMPARED_NEW);
	cr_expect_null(span()->spans[0]);
	cr_expect_float_eq(span()->added, 10820.0 * SPANS, 2e6);
}

Test(comparison, empty_traces_have_nothing, .fini = sides_release)
{
	side_begin(&sides[0], 1000000000, 1);
	side_begin(&sides[1], 1000000000, 1);
	sides_compare();
	cr_expect_eq(comparison.span_count + comparison.event_count, 0);
}
