/* SPDX-License-Identifier: MIT */
/* How long spans took: their tables in a report, and those that are asked for alone. */
#include "cli/report.h"

#include "abi/cost.h"
#include "read/pass/format.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BAR_WIDTH 40
#define TIMES_SHOWN 40 /* lines of histograms */

/* ---- a span's histogram ---- */

#define ROWS_FINE 12
#define ROWS_MAX 24

/* A row of a span's histogram. */
struct histogram_row {
	uint64_t low_ns, high_ns, count;
};

/* Longer times, which only a damaged trace has, are in the last row: next_bound() has 64 bits. */
static uint64_t bounded_ns(const struct summary_span *span, uint64_t ticks)
{
	uint64_t ns = summary_span_ns(span, ticks);

	return ns < INT64_MAX ? ns : INT64_MAX;
}

/* The next bound after 1, 2, 5, 10, ...; or only after 1, 10, ... */
static uint64_t next_bound(uint64_t bound, int coarse)
{
	uint64_t power = 1;

	while (power <= bound / 10)
		power *= 10;
	if (coarse || bound / power >= 5)
		return power * 10;
	return bound / power >= 2 ? power * 5 : power * 2;
}

static int fill_rows(const struct summary_span *span, struct histogram_row *rows, int room,
		     int coarse)
{
	double per_ns = (double)span->ticks_hz / 1e9;
	uint64_t min = bounded_ns(span, span->times->min);
	uint64_t max = bounded_ns(span, span->times->max);
	uint64_t low = 1, high, low_ticks = 0;
	int count = 0;

	while ((high = next_bound(low, coarse)) <= min)
		low = high;
	for (; low <= max || !count; low = high) {
		int last;
		uint64_t high_ticks;

		if (count == room)
			return 0;
		high = next_bound(low, coarse);
		last = high > max;
		high_ticks = last ? UINT64_MAX : (uint64_t)((double)high * per_ns);
		rows[count++] = (struct histogram_row){
			low == 1 ? 0 : low, high,
			summary_times_between(span->times, low_ticks, high_ticks)
		};
		low_ticks = high_ticks;
	}
	return count;
}

/*
 * The rows of a span's histogram: bounds at 1, 2 and 5 of each power of ten where that gives no
 * more than ROWS_FINE rows, else at the powers alone. Returns their number.
 */
static int histogram_rows(const struct summary_span *span, struct histogram_row rows[ROWS_MAX])
{
	int count;

	if (!span->times->count)
		return 0;
	count = fill_rows(span, rows, ROWS_FINE, 0);
	return count ? count : fill_rows(span, rows, ROWS_MAX, 1);
}

/* ---- spans, or groups of them ---- */

/* The time in the spans of a place in the summary's spans[]; NULL: no switches were recorded. */
static const struct switch_span *threads_span(const struct report_threads *threads, uint32_t span)
{
	return threads->count ? &threads->switches.spans[span] : NULL;
}

static const struct row_column span_columns[] = {
	{ "name", ROW_TEXT, ROW_PLAIN, 0,
	  "SUBSYSTEM:EVENT, without :begin and :end; a function is MODULE:NAME" },
	{ "by", ROW_TEXT, ROW_PLAIN, 0, "the values of the fields of --by" },
	{ "calls", ROW_U64, ROW_COUNT, 0, "with both ends" },
	{ "total", ROW_U64, ROW_NS, 0, "of all; one within another of its name counts in both" },
	{ "self", ROW_U64, ROW_NS, 0, "of that, outside of spans that began in it" },
	{ "mean", ROW_U64, ROW_NS, 0, "of one" },
	{ "min", ROW_U64, ROW_NS, ROW_DETAIL, "the shortest" },
	{ "p50", ROW_U64, ROW_NS, 0, "the median; off by one part in 32 at most" },
	{ "p99", ROW_U64, ROW_NS, 0, "the 99th percentile, likewise" },
	{ "max", ROW_U64, ROW_NS, 0, "the longest" },
	{ "unfinished", ROW_U64, ROW_COUNT, ROW_QUIET, "begun, with no end recorded" },
	{ "unbegun", ROW_U64, ROW_COUNT, ROW_QUIET, "ended, with no begin recorded" },
	{ "switched", ROW_U64, ROW_COUNT, ROW_DETAIL, "of how many the next five are the sums" },
	TIME_COLUMNS,
};
ROW_TABLE(report_span_table, "span", "How long spans took, and the states of the threads in them.",
	  span_columns);

#define SORT_DEFAULT "total"

/* What a row is of. */
struct span_line {
	const struct summary_span *span;
	const struct span_group *group; /* NULL: all of the span */
	const struct switch_span *switched;
};

struct spans_printing {
	const struct report *report;
	const uint32_t *visible; /* of the summary's spans[]; NULL: groups are printed */
	char by[SPAN_BY_MAX * 512 + 16];
};

static struct row_value span_ns(const struct summary_span *span, const struct histogram *times,
				uint64_t ticks)
{
	return times->count ? row_u64(summary_span_ns(span, ticks)) : row_null();
}

static struct span_line line_of(const struct spans_printing *printing, size_t number)
{
	const struct report *report = printing->report;
	const struct span_group *group;

	if (printing->visible)
		return (struct span_line){
			.span = &report->summary->spans[printing->visible[number]],
			.switched = threads_span(&report->threads, printing->visible[number])
		};
	group = &report->calls.groups[number];
	return (struct span_line){ .span = &report->summary->spans[group->span], .group = group };
}

/* "GET, 7": the values that --by asks for. NULL: without it. */
static const char *by_text(struct spans_printing *printing, const struct span_group *group)
{
	unsigned int count = printing->report->calls.wish.by_count;
	size_t used = 0;

	for (unsigned int k = 0; group && k < count && used < sizeof(printing->by); k++)
		used += (size_t)snprintf(printing->by + used, sizeof(printing->by) - used, "%s%s",
					 k ? ", " : "", group->values[k] ? group->values[k] : "-");
	return used ? printing->by : NULL;
}

static void span_make(void *data, size_t number, struct row_value *row)
{
	static const uint64_t none[THREAD_TIMES];
	struct spans_printing *printing = data;
	const struct span_line line = line_of(printing, number);
	const struct summary_span *span = line.span;
	const struct histogram *times = line.group ? line.group->times : span->times;
	const struct switch_span *switched = line.switched;
	const uint64_t *ns = switched ? switched->ns : none;
	uint64_t nested_ticks = span->nested_ticks < times->sum ? span->nested_ticks : times->sum;
	uint64_t self_ticks = line.group ? line.group->self_ticks : times->sum - nested_ticks;
	uint64_t calls = times->count;

	ROWS_FILL(row, span_columns, row_text(span->name), row_text(by_text(printing, line.group)),
		  row_u64(calls), row_u64(summary_span_ns(span, times->sum)),
		  row_u64(summary_span_ns(span, self_ticks)),
		  span_ns(span, times, calls ? times->sum / calls : 0),
		  span_ns(span, times, times->min),
		  span_ns(span, times, summary_quantile(times, 0.5)),
		  span_ns(span, times, summary_quantile(times, 0.99)),
		  span_ns(span, times, times->max),
		  line.group ? row_null() : row_u64(span->unfinished),
		  line.group ? row_null() : row_u64(span->unbegun),
		  switched ? row_u64(switched->count) : row_null(),
		  TIME_VALUES(switched != NULL, ns));
}

static int is_shown(const struct rows *rows, const struct summary_span *span)
{
	return rows->format != ROWS_TEXT || span->times->count || span->unfinished || span->unbegun;
}

static void span_rows(struct rows *rows, const struct report *report,
		      const struct rows_layout *layout)
{
	const struct summary *summary = report->summary;
	int has_groups = report->calls.wish.has_groups;
	uint32_t *visible = calloc(summary->span_count + 1ul, sizeof(*visible));
	struct spans_printing printing = { .report = report,
					   .visible = has_groups ? NULL : visible };
	struct rows_sorted sorted = { .table = &report_span_table,
				      .column = report->span_sort,
				      .make = span_make,
				      .data = &printing };

	if (!visible) {
		rows->out->error = -ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < summary->span_count; i++)
		if (is_shown(rows, &summary->spans[i]))
			visible[sorted.count++] = i;
	if (has_groups)
		sorted.count = report->calls.group_count;
	rows_put_sorted(rows, &sorted, layout);
	free(visible);
}

static const struct row_column span_time_columns[] = {
	{ "span", ROW_TEXT, ROW_PLAIN, 0, "its name" },
	{ "from", ROW_U64, ROW_NS, 0, "the shortest that are in this row" },
	{ "to", ROW_U64, ROW_NS, 0, "those of this length are in the next" },
	{ "count", ROW_U64, ROW_COUNT, 0, "so many spans took so long" },
	{ "histogram", ROW_TEXT, ROW_PLAIN, ROW_FOR_TEXT, "the same, drawn" },
};
static ROW_TABLE(report_span_time_table, "span_time", "How many spans took how long.",
		 span_time_columns);

static void span_time_rows(struct rows *rows, const struct summary_span *span)
{
	static const char bar[] = "########################################";
	struct histogram_row times[ROWS_MAX];
	int count = histogram_rows(span, times);
	uint64_t most = 1;

	for (int i = 0; i < count; i++)
		most = times[i].count > most ? times[i].count : most;
	for (int i = 0; i < count; i++) {
		int filled = (int)((double)times[i].count * BAR_WIDTH / (double)most + 0.5);

		filled += !filled && times[i].count;
		ROWS_PUT(rows, span_time_columns, row_text(span->name), row_u64(times[i].low_ns),
			 row_u64(times[i].high_ns), row_u64(times[i].count),
			 row_text(bar + BAR_WIDTH - filled));
	}
}

static const struct row_column span_cost_columns[] = {
	{ "span", ROW_TEXT, ROW_PLAIN, 0, "its name" },
	{ "name", ROW_TEXT, ROW_PLAIN, 0, "of the count" },
	{ "unit", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "ns, or empty" },
	{ "sum", ROW_U64, ROW_PLAIN, 0, "in all spans" },
	{ "mean", ROW_DOUBLE, ROW_PLAIN, 0, "in one" },
	{ "max", ROW_U64, ROW_PLAIN, 0, "at most" },
	{ "spans", ROW_U64, ROW_COUNT, 0, "that these are of" },
	{ "unavailable", ROW_U64, ROW_COUNT, ROW_QUIET, "spans one of whose ends has no value" },
	{ "partial", ROW_U64, ROW_COUNT, ROW_QUIET,
	  "spans left out: something else had the processor's counters within them" },
};
static ROW_TABLE(report_span_cost_table, "span_count",
		 "What the counts of markers in spans came to.", span_cost_columns);

static void span_cost_row(struct rows *rows, const struct summary_span *span,
			  const struct summary_cost *cost)
{
	enum row_unit unit = *cost->unit ? ROW_NS : ROW_PLAIN;

	/* what it says of the others is with them */
	if (rows->format == ROWS_TEXT && cost->kind == COST_UNCOUNTED && !cost->sum)
		return;
	ROWS_PUT(rows, span_cost_columns, row_text(span->name), row_text(cost->name),
		 row_text(cost->unit), row_in(row_u64(cost->sum), unit),
		 cost->spans ? row_in(row_double((double)cost->sum / (double)cost->spans), unit)
			     : row_null(),
		 row_in(row_u64(cost->max), unit), row_u64(cost->spans), row_u64(cost->unavailable),
		 row_u64(cost->partial));
}

/* ---- callers and callees ---- */

static const struct row_column call_columns[] = {
	{ "caller", ROW_TEXT, ROW_PLAIN, 0,
	  "the innermost span of the thread that it began in; null: none" },
	{ "callee", ROW_TEXT, ROW_PLAIN, 0, "the span" },
	{ "calls", ROW_U64, ROW_COUNT, 0, "how often it began there" },
	{ "total", ROW_U64, ROW_NS, 0, "the callee's time" },
	{ "self", ROW_U64, ROW_NS, 0, "of that, outside of spans that began in it" },
	{ "mean", ROW_U64, ROW_NS, 0, "of one" },
	{ "max", ROW_U64, ROW_NS, 0, "the longest" },
};
static ROW_TABLE(report_span_call_table, "span_call",
		 "Callers and callees of spans and functions (--callers).", call_columns);

static void call_make(void *data, size_t number, struct row_value *row)
{
	const struct report *report = data;
	const struct span_edge *edge = &report->calls.edges[number];
	const struct summary_span *spans = report->summary->spans, *span = &spans[edge->callee];

	ROWS_FILL(row, call_columns,
		  row_text(edge->caller == SPAN_NONE ? NULL : spans[edge->caller].name),
		  row_text(span->name), row_u64(edge->count),
		  row_u64(summary_span_ns(span, edge->ticks)),
		  row_u64(summary_span_ns(span, edge->self_ticks)),
		  row_u64(summary_span_ns(span, edge->ticks / edge->count)),
		  row_u64(summary_span_ns(span, edge->max_ticks)));
}

static void call_rows(struct rows *rows, const struct report *report,
		      const struct rows_layout *layout)
{
	const struct rows_sorted sorted = {
		.table = &report_span_call_table,
		.column = (unsigned int)rows_column(&report_span_call_table, SORT_DEFAULT),
		.count = report->calls.edge_count,
		.make = call_make,
		.data = (void *)(uintptr_t)report,
	};

	rows_put_sorted(rows, &sorted, layout);
}

/* ---- the slowest ---- */

/* The fields of one, as text, and what its thread did in it. */
struct report_slow {
	char *arguments, *result; /* NULL: none */
	uint64_t ns[THREAD_TIMES];
	int is_switched;
};

static const struct row_column slow_columns[] = {
	{ "begin", ROW_U64, ROW_SINCE, 0, "when it began, since the trace's begin" },
	{ "duration", ROW_U64, ROW_NS, 0, "how long it took" },
	{ "self", ROW_U64, ROW_NS, 0, "of that, outside of spans that began in it" },
	TIME_COLUMNS,
	{ "thread", ROW_TEXT, ROW_PLAIN, 0, "its thread's name" },
	{ "pid", ROW_U64, ROW_PLAIN, ROW_DETAIL, "its process" },
	{ "tid", ROW_U64, ROW_PLAIN, 0, "its thread" },
	{ "span", ROW_TEXT, ROW_PLAIN, 0, "its name" },
	{ "waited", ROW_U64, ROW_NS, 0, "the longest wait in it, as record --waits found" },
	{ "for", ROW_TEXT, ROW_PLAIN, 0, "that call, and its lock or descriptor" },
	{ "arguments", ROW_TEXT, ROW_PLAIN, ROW_QUOTED, "the fields of its begin" },
	{ "result", ROW_TEXT, ROW_PLAIN, ROW_QUOTED, "the fields of its end" },
};
static ROW_TABLE(report_slow_table, "slow", "The slowest spans (--slowest).", slow_columns);

/* The fields of the event at that place; *text NULL: it has none. 0 or -ENOMEM. */
static int slow_read(struct trace_reader *reader, const struct span_place *place, struct out *out,
		     char **text)
{
	const struct trace_class *class;
	const uint8_t *fields;
	int err = span_place_read(reader, place, &class, &fields);

	if (err) /* it was read before: what is wrong now is the reader's damage */
		return err == -ENOMEM ? err : 0;
	out->at = out->bytes;
	format_values(out, class, fields);
	if (out->at == out->bytes)
		return 0;
	*text = strndup(out->bytes, (size_t)(out->at - out->bytes));
	return *text ? 0 : -ENOMEM;
}

static int by_begin(const void *left, const void *right)
{
	const struct span_slow *a = *(const struct span_slow *const *)left;
	const struct span_slow *b = *(const struct span_slow *const *)right;

	if (a->begin_ticks != b->begin_ticks)
		return a->begin_ticks < b->begin_ticks ? -1 : 1;
	if (a->begin.stream != b->begin.stream)
		return a->begin.stream < b->begin.stream ? -1 : 1;
	return (a->span > b->span) - (a->span < b->span);
}

/* A callback of the pass over switches. */
static void slow_switched(const struct merge_event *end, uint32_t span, uint64_t begin_ticks,
			  const uint64_t ns[THREAD_TIMES], void *data)
{
	struct report *report = data;
	const struct span_slow wanted = { .span = span,
					  .begin_ticks = begin_ticks,
					  .begin.stream = (uint32_t)(end->stream -
								     report->reader->streams) };
	const struct span_slow *key = &wanted, **found;
	struct report_slow *slow;

	found = bsearch(&key, report->slow_by_begin, report->calls.slow_count, sizeof(*found),
			by_begin);
	if (!found)
		return;
	slow = &report->slow[*found - report->calls.slow];
	memcpy(slow->ns, ns, sizeof(slow->ns));
	slow->is_switched = 1;
}

int report_slow(struct report *report)
{
	const struct span_calls *calls = &report->calls;
	struct trace_reader *reader = report->reader;
	struct out *out = malloc(sizeof(*out));
	int err = 0;

	report->slow = calloc(calls->slow_count + 1, sizeof(*report->slow));
	report->slow_by_begin = calloc(calls->slow_count + 1, sizeof(*report->slow_by_begin));
	if (!report->slow || !report->slow_by_begin || !out)
		err = -ENOMEM;
	else
		out_init(out, -1);
	for (size_t i = 0; i < calls->slow_count && !err; i++) {
		const struct span_slow *slow = &calls->slow[i];

		report->slow_by_begin[i] = slow;
		err = slow_read(reader, &slow->begin, out, &report->slow[i].arguments);
		if (!err)
			err = slow_read(reader, &slow->end, out, &report->slow[i].result);
		reader_stream_unmap(&reader->streams[slow->begin.stream]);
		reader_stream_unmap(&reader->streams[slow->end.stream]);
	}
	free(out);
	if (!err) {
		qsort(report->slow_by_begin, calls->slow_count, sizeof(*report->slow_by_begin),
		      by_begin);
		report->threads.switches.take_span = slow_switched;
		report->threads.switches.span_data = report;
	}
	return err;
}

void report_slow_release(struct report *report)
{
	for (size_t i = 0; report->slow && i < report->calls.slow_count; i++) {
		free(report->slow[i].arguments);
		free(report->slow[i].result);
	}
	free(report->slow);
	free(report->slow_by_begin);
}

static void slow_rows(struct rows *rows, const struct report *report)
{
	const struct span_calls *calls = &report->calls;
	uint64_t first_ns = reader_begin_ns(report->reader);
	struct lock_names names = { 0 };

	rows_open(rows, &report_slow_table, &(struct rows_layout){ .more = "--slowest N" });
	for (size_t i = 0; i < calls->slow_count; i++) {
		const struct span_slow *slow = &calls->slow[i];
		const struct trace_stream *stream = &report->reader->streams[slow->begin.stream];
		uint64_t ns = reader_ns(report->reader, stream_clock(report->reader, stream),
					slow->begin_ticks);
		const struct wait_call *wait = wait_calls_longest(
			&report->wait_calls.calls, stream->pid, stream->tid, ns, ns + slow->ns);
		char text[REPORT_WAIT_BYTES];

		ROWS_PUT(rows, slow_columns, row_u64(ns - first_ns), row_u64(slow->ns),
			 row_u64(slow->self_ns),
			 TIME_VALUES(report->slow[i].is_switched, report->slow[i].ns),
			 row_text(stream->comm), row_u64(stream->pid), row_u64(stream->tid),
			 row_text(report->summary->spans[slow->span].name),
			 wait ? row_u64(wait->end_ns - wait->begin_ns) : row_null(),
			 row_text(wait ? report_wait_text(&report->wait_calls, &names, wait, text)
				       : NULL),
			 row_text(report->slow[i].arguments), row_text(report->slow[i].result));
	}
	rows_skip(rows, calls->fitting - calls->slow_count);
	rows_close(rows);
	lock_names_release(&names);
}

/* ---- all ---- */

void report_spans_print(struct rows *rows, const struct report *report)
{
	const struct summary *summary = report->summary;

	span_rows(rows, report,
		  &(struct rows_layout){ .shown = report->top, .more = "--top 0 shows all" });
	rows_open(rows, &report_span_time_table,
		  &(struct rows_layout){ .shown = TIMES_SHOWN, .more = "--json lists all" });
	for (uint32_t i = 0; i < summary->span_count; i++)
		span_time_rows(rows, &summary->spans[i]);
	rows_close(rows);
	rows_open(rows, &report_span_cost_table, NULL);
	for (uint32_t i = 0; i < summary->span_count; i++)
		for (uint32_t j = 0; j < summary->spans[i].cost_count; j++)
			span_cost_row(rows, &summary->spans[i], &summary->spans[i].costs[j]);
	rows_close(rows);
}

void report_spans_view(struct rows *rows, const struct report *report, unsigned int views)
{
	const struct rows_layout layout = { .last = report->top, .more = "--top 0 shows all" };

	if (views & VIEW_SPANS)
		span_rows(rows, report, &layout);
	if (views & VIEW_CALLS)
		call_rows(rows, report, &layout);
	if (views & VIEW_SLOWEST)
		slow_rows(rows, report);
}

int report_spans_are_there(const struct report *report, unsigned int views)
{
	int are_there = (views & VIEW_CALLS && report->calls.edge_count) ||
			(views & VIEW_SLOWEST && report->calls.slow_count);

	if (views & VIEW_SPANS && report->calls.wish.has_groups)
		return are_there || report->calls.group_count;
	for (uint32_t i = 0; views & VIEW_SPANS && i < report->summary->span_count; i++)
		are_there |= report->summary->spans[i].times->count != 0;
	return are_there;
}
