/* SPDX-License-Identifier: MIT */
/*
 * waymark report A B: what got slower, or more frequent, between two traces.
 */
#include "cli/cli.h"
#include "cli/damage.h"
#include "cli/output.h"
#include "cli/report.h"
#include "read/compare/comparison.h"

#include <stdio.h>

static const struct row_column compared_columns[] = {
	{ "before", ROW_TEXT, ROW_PLAIN, 0, "the folder of the first trace" },
	{ "after", ROW_TEXT, ROW_PLAIN, 0, "of the second" },
	{ "before_discarded", ROW_U64, ROW_COUNT, ROW_DETAIL, "events that the first one lost" },
	{ "after_discarded", ROW_U64, ROW_COUNT, ROW_DETAIL, "that the second one lost" },
	{ "spans", ROW_U64, ROW_COUNT, ROW_DETAIL, "of either trace" },
	{ "spans_changed", ROW_U64, ROW_COUNT, ROW_DETAIL, "of these" },
	{ "events", ROW_U64, ROW_COUNT, ROW_DETAIL, "of either trace, without ends of spans" },
	{ "events_changed", ROW_U64, ROW_COUNT, ROW_DETAIL, "of these" },
};
static ROW_TABLE(report_compared_table, "compared",
		 "Two traces (report A B): members of the object itself.", compared_columns);

/* What both tables have behind the name. */
#define CHANGE_RATIO(what)                                                                         \
	{ "ratio", ROW_DOUBLE, ROW_PLAIN, ROW_DETAIL, what ", after by before" },                  \
		{ "ratio_low", ROW_DOUBLE, ROW_PLAIN, ROW_DETAIL, "it is at least" },              \
		{ "ratio_high", ROW_DOUBLE, ROW_PLAIN, ROW_DETAIL,                                 \
		  "it is at most; both with a confidence of 99 %" },                               \
		{ "p", ROW_DOUBLE, ROW_PLAIN, ROW_DETAIL,                                          \
		  "how likely so large a difference is without a change, in one of all tests" },   \
	{                                                                                          \
		"times", ROW_TEXT, ROW_PLAIN, ROW_FOR_TEXT | ROW_RIGHT, "the ratio and its bounds" \
	}

static const struct row_column span_change_columns[] = {
	{ "span", ROW_TEXT, ROW_PLAIN, 0, "its name" },
	{ "change", ROW_TEXT, ROW_PLAIN, 0,
	  "slower, faster; slower or faster at times: the mean alone; new, gone; few calls: fewer "
	  "than 20; null: no significant change" },
	CHANGE_RATIO("its typical length, the geometric mean"),
	{ "added", ROW_DOUBLE, ROW_NS, ROW_DETAIL,
	  "what the change of the mean makes for all spans of the second trace" },
	{ "added_total", ROW_TEXT, ROW_PLAIN, ROW_FOR_TEXT | ROW_RIGHT, "the same" },
	{ "count_before", ROW_U64, ROW_COUNT, 0, "with both ends" },
	{ "count_after", ROW_U64, ROW_COUNT, 0, "likewise" },
	{ "median_before", ROW_U64, ROW_NS, 0, "off by one part in 32 at most" },
	{ "median_after", ROW_U64, ROW_NS, 0, "likewise" },
	{ "p99_before", ROW_U64, ROW_NS, 0, "the 99th percentile, likewise" },
	{ "p99_after", ROW_U64, ROW_NS, 0, "likewise" },
};
static ROW_TABLE(report_span_change_table, "span_change",
		 "Spans that take longer or less long in the second of two traces.",
		 span_change_columns);

static const struct row_column event_change_columns[] = {
	{ "event", ROW_TEXT, ROW_PLAIN, 0, "its name" },
	{ "change", ROW_TEXT, ROW_PLAIN, 0,
	  "more or less frequent; new, gone; few: fewer than 20; null: no significant change" },
	CHANGE_RATIO("its rate or its count, what changed less"),
	{ "count_before", ROW_U64, ROW_COUNT, 0, "in the first trace" },
	{ "count_after", ROW_U64, ROW_COUNT, 0, "in the second" },
	{ "per_second_before", ROW_DOUBLE, ROW_PLAIN, 0, "over the whole recording" },
	{ "per_second_after", ROW_DOUBLE, ROW_PLAIN, 0, "likewise" },
};
static ROW_TABLE(report_event_change_table, "event_change",
		 "Events that are more or less frequent in the second of two traces.",
		 event_change_columns);

static struct row_value ratio_value(double ratio)
{
	return ratio > 0 ? row_double(ratio) : row_null();
}

/* "1.52 (1.49 to 1.55)" in text[], which is returned; NULL: unknown. */
static const char *times_text(const struct compared *row, char text[64])
{
	if (row->ratio <= 0)
		return NULL;
	snprintf(text, 64, "%.2f (%.2f to %.2f)", row->ratio, row->low, row->high);
	return text;
}

#define RATIO_VALUES(row, text)                                                                    \
	ratio_value((row)->ratio), ratio_value((row)->low), ratio_value((row)->high),              \
		(row)->ratio > 0 ? row_double((row)->p) : row_null(),                              \
		row_text(times_text(row, text))

static const char *added_text(const struct compared *row, char text[32])
{
	char ns[24];

	snprintf(text, 32, "%s%s", row->added < 0 ? "-" : "+",
		 rows_ns(row->added < 0 ? -row->added : row->added, ns));
	return text;
}

static struct row_value quantile_value(const struct summary_span *span, double part)
{
	return span ? row_u64(summary_span_ns(span, summary_quantile(span->times, part)))
		    : row_null();
}

static void span_row(struct rows *rows, const struct compared *row)
{
	static const char *const words[] = {
		[COMPARED_MORE] = "slower",
		[COMPARED_LESS] = "faster",
		[COMPARED_MORE_AT_TIMES] = "slower at times",
		[COMPARED_LESS_AT_TIMES] = "faster at times",
		[COMPARED_NEW] = "new",
		[COMPARED_GONE] = "gone",
		[COMPARED_FEW] = "few calls",
	};
	const struct summary_span *before = row->spans[0], *after = row->spans[1];
	char times[64], added[32];

	ROWS_PUT(rows, span_change_columns, row_text(row->name), row_text(words[row->change]),
		 RATIO_VALUES(row, times), row_double(row->added), row_text(added_text(row, added)),
		 row_u64(before ? before->times->count : 0),
		 row_u64(after ? after->times->count : 0), quantile_value(before, 0.5),
		 quantile_value(after, 0.5), quantile_value(before, 0.99),
		 quantile_value(after, 0.99));
}

static void event_row(struct rows *rows, const struct compared *row)
{
	static const char *const words[] = {
		[COMPARED_MORE] = "more frequent",
		[COMPARED_LESS] = "less frequent",
		[COMPARED_NEW] = "new",
		[COMPARED_GONE] = "gone",
		[COMPARED_FEW] = "few",
	};
	const struct summary_event *before = row->events[0], *after = row->events[1];
	char times[64];

	ROWS_PUT(rows, event_change_columns, row_text(row->name), row_text(words[row->change]),
		 RATIO_VALUES(row, times), row_u64(before ? before->count : 0),
		 row_u64(after ? after->count : 0), row_double(before ? before->per_second : 0),
		 row_double(after ? after->per_second : 0));
}

/* Text has the rows that changed, and counts the others. */
static void rows_put_all(struct rows *rows, const struct row_table *table,
			 const struct compared *all, size_t count, size_t changed, uint64_t shown,
			 void (*put)(struct rows *rows, const struct compared *row))
{
	size_t most = rows->format == ROWS_TEXT ? changed : count;

	rows_open(rows, table, &(struct rows_layout){ .shown = shown, .more = "-n 0 shows all" });
	for (size_t i = 0; i < most; i++)
		put(rows, &all[i]);
	rows_close(rows);
}

/* "Spans        12 without significant change, 3 with fewer than 20 calls" */
static void unchanged_note(struct rows *rows, const char *title, const struct compared *all,
			   size_t count, size_t changed)
{
	size_t few = 0;
	char words[64] = "";

	for (size_t i = 0; i < count; i++)
		few += all[i].change == COMPARED_FEW;
	if (few)
		snprintf(words, sizeof(words), "; %zu seen fewer than %d times", few,
			 COMPARE_CALLS_MIN);
	if (!count)
		return;
	if (changed)
		rows_note(rows, "%-12s %zu of %zu changed significantly%s", title, changed, count,
			  words);
	else
		rows_note(rows, "%-12s no significant change of %zu%s", title, count, words);
}

static void lost_note(struct rows *rows, const char *title, const struct summary *summary)
{
	if (summary->discarded || summary->missing_packets)
		rows_note(rows, "%-12s %s lost events: its counts and rates are too low", "Losses",
			  title);
}

static void comparison_print(const struct comparison *comparison, char *const dirs[2],
			     struct summary *const summaries[2], uint64_t shown, struct rows *rows)
{
	const struct row_value row[] = {
		row_text(dirs[0]),
		row_text(dirs[1]),
		row_u64(summaries[0]->discarded),
		row_u64(summaries[1]->discarded),
		row_u64(comparison->span_count),
		row_u64(comparison->spans_changed),
		row_u64(comparison->event_count),
		row_u64(comparison->events_changed),
	};

	rows_record(rows, &report_compared_table, row);
	unchanged_note(rows, "Spans", comparison->spans, comparison->span_count,
		       comparison->spans_changed);
	unchanged_note(rows, "Events", comparison->events, comparison->event_count,
		       comparison->events_changed);
	lost_note(rows, dirs[0], summaries[0]);
	lost_note(rows, dirs[1], summaries[1]);
	rows_put_all(rows, &report_span_change_table, comparison->spans, comparison->span_count,
		     comparison->spans_changed, shown, span_row);
	rows_put_all(rows, &report_event_change_table, comparison->events, comparison->event_count,
		     comparison->events_changed, shown, event_row);
}

int report_compare(char *const dirs[2], enum rows_format format, uint64_t shown)
{
	struct trace_reader *readers[2] = { NULL, NULL };
	struct summary *summaries[2] = { NULL, NULL };
	struct comparison comparison = { 0 };
	int err = 0, status = CLI_FINE;

	for (int i = 0; i < 2 && !err; i++) {
		err = trace_reader_open(&readers[i], dirs[i]);
		if (!err)
			err = summary_make_sliced(&summaries[i], readers[i]);
		if (err)
			status = complain(err, "%s", dirs[i]);
	}
	if (!err) {
		err = comparison_make(&comparison, summaries[0], summaries[1]);
		if (err)
			status = complain(err, NULL);
	}
	if (!err) {
		comparison_print(&comparison, dirs, summaries, shown, output_rows(format));
		status = output_rows_end(CLI_FINE);
	}
	for (int i = 0; i < 2; i++) {
		if (readers[i] && damage_complain(readers[i], dirs[i]) != CLI_FINE &&
		    status == CLI_FINE)
			status = CLI_FAILED;
	}
	comparison_release(&comparison);
	for (int i = 0; i < 2; i++) {
		summary_free(summaries[i]);
		trace_reader_close(readers[i]);
	}
	return status;
}
