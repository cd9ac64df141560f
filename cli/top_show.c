/* SPDX-License-Identifier: MIT */
#include "cli/top_show.h"

#include "base/quantity.h"
#include "cli/output.h"
#include "read/rows/render.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COLUMNS_MIN 40u
#define NAME_MIN 12u

/* ---- order ---- */

static int events_order(const void *one, const void *other)
{
	const struct top_event *a = *(const struct top_event *const *)one;
	const struct top_event *b = *(const struct top_event *const *)other;

	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	return strcmp(a->name, b->name);
}

static int spans_order(const void *one, const void *other)
{
	const struct top_span *a = *(const struct top_span *const *)one;
	const struct top_span *b = *(const struct top_span *const *)other;

	if (a->sum_ns != b->sum_ns)
		return a->sum_ns > b->sum_ns ? -1 : 1;
	return strcmp(a->name, b->name);
}

static int threads_order(const void *one, const void *other)
{
	const struct top_thread *a = *(const struct top_thread *const *)one;
	const struct top_thread *b = *(const struct top_thread *const *)other;

	for (int state = TOP_RUNNING; state <= TOP_READY; state++)
		if (a->ns[state] != b->ns[state])
			return a->ns[state] > b->ns[state] ? -1 : 1;
	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static int had_time(const struct top_thread *thread)
{
	return thread->is_seen || thread->ns[TOP_RUNNING] > 0 || thread->ns[TOP_READY] > 0 ||
	       thread->ns[TOP_ASLEEP] > 0;
}

int top_view_sort(struct top_view *view)
{
	const struct top_count *count = view->count;

	view->event_count = view->span_count = view->thread_count = 0;
	view->events = calloc(count->event_count + 1, sizeof(struct top_event *));
	view->spans = calloc(count->span_count + 1, sizeof(struct top_span *));
	view->threads = calloc(count->threads.count + 1, sizeof(struct top_thread *));
	if (!view->events || !view->spans || !view->threads)
		return -ENOMEM;
	for (size_t i = 0; i < count->event_count; i++)
		if (count->events[i].count)
			view->events[view->event_count++] = &count->events[i];
	for (size_t i = 0; i < count->span_count; i++)
		if (count->spans[i]->times.count || count->spans[i]->open)
			view->spans[view->span_count++] = count->spans[i];
	for (size_t i = 0; i < count->threads.count; i++)
		if (had_time(&count->threads.all[i]))
			view->threads[view->thread_count++] = &count->threads.all[i];
	qsort(view->events, view->event_count, sizeof(struct top_event *), events_order);
	qsort(view->spans, view->span_count, sizeof(struct top_span *), spans_order);
	qsort(view->threads, view->thread_count, sizeof(struct top_thread *), threads_order);
	return 0;
}

void top_view_release(struct top_view *view)
{
	free(view->events);
	free(view->spans);
	free(view->threads);
	view->events = NULL;
	view->spans = NULL;
	view->threads = NULL;
}

/* ---- words ---- */

/* A name that a terminal can be shown, in so many columns; a longer one is cut. */
static void put_name(struct text *text, const struct top_view *view, const char *name,
		     unsigned int width)
{
	char tame[1024];
	size_t bytes = out_tame(tame, sizeof(tame), name), at = 0;
	unsigned int columns = 0;

	while (at < bytes && (columns < width || !view->columns)) {
		int is_unfit;

		at += out_character(tame + at, bytes - at, &is_unfit);
		columns++;
	}
	if (at < bytes && at)
		tame[at - 1] = (tame[at - 1] & 0x80) ? tame[at - 1] : '~';
	text_add(text, tame, at);
	for (; columns < width; columns++)
		text_add(text, " ", 1);
}

/* ---- tables ---- */

static const struct row_column event_columns[] = {
	{ "count", ROW_U64, ROW_COUNT, 0, "in the interval" },
	{ "per_second", ROW_DOUBLE, ROW_PLAIN, 0, "likewise" },
	{ "share", ROW_DOUBLE, ROW_SHARE, 0, "of all events; null: it is a count" },
	{ "event", ROW_TEXT, ROW_PLAIN, 0, "SUBSYSTEM:EVENT" },
};
static ROW_TABLE(top_event_table, "top_event", "How often each event came in an interval.",
		 event_columns);

static struct row_value share(uint64_t part, uint64_t whole)
{
	return row_double(whole ? 100.0 * (double)part / (double)whole : 0);
}

static void put_event(const struct top_view *view, struct rows *rows, const char *name,
		      uint64_t count, int is_grown)
{
	ROWS_PUT(rows, event_columns, row_u64(count), row_double((double)count / view->seconds),
		 is_grown ? row_null() : share(count, view->count->event_total), row_text(name));
}

static void put_events(const struct top_view *view, struct rows *rows, size_t count)
{
	static const unsigned char widths[] = { 12, 12, 6, 0 };

	rows_open(rows, &top_event_table, &(struct rows_layout){ .widths = widths });
	for (size_t i = 0; i < count && i < view->event_count; i++)
		put_event(view, rows, view->events[i]->name, view->events[i]->count,
			  view->events[i]->is_grown);
	if (rows->format == ROWS_TEXT && view->count->other_events)
		put_event(view, rows, "(others)", view->count->other_events, 0);
	rows_close(rows);
}

static const struct row_column span_columns[] = {
	{ "count", ROW_U64, ROW_COUNT, 0, "that ended in the interval" },
	{ "total", ROW_U64, ROW_NS, ROW_DETAIL, "of these" },
	{ "mean", ROW_U64, ROW_NS, 0, "of these" },
	{ "p99", ROW_U64, ROW_NS, 0, "the 99th percentile" },
	{ "max", ROW_U64, ROW_NS, 0, "the longest" },
	{ "open", ROW_U64, ROW_COUNT, 0, "begun and not yet ended" },
	{ "span", ROW_TEXT, ROW_PLAIN, 0, "SUBSYSTEM:EVENT, without :begin and :end" },
};
static ROW_TABLE(top_span_table, "top_span", "How long spans took in an interval.", span_columns);

static void put_spans(const struct top_view *view, struct rows *rows, size_t count)
{
	static const unsigned char widths[] = { 12, 0, 9, 9, 9, 6, 0 };

	rows_open(rows, &top_span_table, &(struct rows_layout){ .widths = widths });
	for (size_t i = 0; i < count && i < view->span_count; i++) {
		const struct top_span *span = view->spans[i];
		const struct histogram *times = &span->times;
		int has = times->count != 0;

		ROWS_PUT(rows, span_columns, row_u64(times->count), row_u64(span->sum_ns),
			 has ? row_u64(span->sum_ns / times->count) : row_null(),
			 has ? row_u64(summary_quantile(times, 0.99)) : row_null(),
			 has ? row_u64(times->max) : row_null(), row_u64(span->open),
			 row_text(span->name));
	}
	if (rows->format == ROWS_TEXT && view->count->other_spans)
		ROWS_PUT(rows, span_columns, row_u64(view->count->other_spans), row_null(),
			 row_null(), row_null(), row_null(), row_null(), row_text("(others)"));
	rows_close(rows);
}

static void put_sums(const struct top_view *view, struct rows *rows, size_t count)
{
	if (view->sums)
		sums_lines_put(view->sums, rows, count);
}

static const struct row_column function_columns[] = {
	{ "samples", ROW_U64, ROW_COUNT, 0, "in it" },
	{ "share", ROW_DOUBLE, ROW_SHARE, 0, "of all samples" },
	{ "module", ROW_TEXT, ROW_PLAIN, 0, "the file that it is from" },
	{ "function", ROW_TEXT, ROW_PLAIN, 0, "its name" },
};
static ROW_TABLE(top_function_table, "top_function", "The functions of an interval's samples.",
		 function_columns);

static void put_functions(const struct top_view *view, struct rows *rows, size_t count)
{
	static const unsigned char widths[] = { 8, 6, 20, 0 };
	uint64_t total = view->count->sample_total, others = view->count->other_samples;

	rows_open(rows, &top_function_table, &(struct rows_layout){ .widths = widths });
	for (size_t i = 0; i < count && i < view->function_count; i++)
		ROWS_PUT(rows, function_columns, row_u64(view->functions[i].samples),
			 share(view->functions[i].samples, total),
			 row_text(view->functions[i].module), row_text(view->functions[i].name));
	if (rows->format == ROWS_TEXT && others)
		ROWS_PUT(rows, function_columns, row_u64(others), share(others, total), row_null(),
			 row_text("(others)"));
	rows_close(rows);
}

static uint64_t state_ns(const struct top_thread *thread, enum top_state state)
{
	return thread->ns[state] > 0 ? (uint64_t)thread->ns[state] : 0;
}

double top_thread_percent(const struct top_view *view, const struct top_thread *thread,
			  enum top_state state)
{
	return share(state_ns(thread, state),
		     view->count->threads.end_ns - view->count->threads.begin_ns)
		.real;
}

static const struct row_column thread_columns[] = {
	{ "tid", ROW_U64, ROW_PLAIN, 0, "of the thread" },
	{ "pid", ROW_U64, ROW_PLAIN, 0, "of its process" },
	{ "running", ROW_DOUBLE, ROW_SHARE, 0, "of the interval, on a CPU" },
	{ "runnable", ROW_DOUBLE, ROW_SHARE, 0, "likewise, without a CPU" },
	{ "asleep", ROW_DOUBLE, ROW_SHARE, 0, "the rest" },
	{ "running", ROW_U64, ROW_NS, ROW_DETAIL, "the same" },
	{ "runnable", ROW_U64, ROW_NS, ROW_DETAIL, "the same" },
	{ "asleep", ROW_U64, ROW_NS, ROW_DETAIL, "the same" },
	{ "switches", ROW_U64, ROW_COUNT, ROW_DETAIL, "off its CPU; null: not known" },
	{ "switches/s", ROW_DOUBLE, ROW_PLAIN, ROW_FOR_TEXT, "the same in a second" },
	{ "thread", ROW_TEXT, ROW_PLAIN, 0, "its name" },
};
static ROW_TABLE(top_thread_table, "top_thread", "What threads did with the time of an interval.",
		 thread_columns);

static void put_thread(const struct top_view *view, struct rows *rows,
		       const struct top_thread *thread)
{
	struct row_value row[sizeof(thread_columns) / sizeof(*thread_columns)], *at = row;

	*at++ = row_u64(thread->tid);
	*at++ = row_u64(thread->pid);
	for (int state = TOP_RUNNING; state <= TOP_ASLEEP; state++)
		*at++ = row_double(top_thread_percent(view, thread, (enum top_state)state));
	for (int state = TOP_RUNNING; state <= TOP_ASLEEP; state++)
		*at++ = row_u64(state_ns(thread, (enum top_state)state));
	*at++ = view->has_times_alone ? row_null() : row_u64(thread->switches);
	*at++ = view->has_times_alone ? row_null()
				      : row_double((double)thread->switches / view->seconds);
	*at = row_words(thread->comm);
	rows_put(rows, row);
}

static void put_threads(const struct top_view *view, struct rows *rows, size_t count)
{
	static const unsigned char widths[] = { 8, 8, 8, 8, 8, 0, 0, 0, 0, 10, 0 };
	struct row_value others[sizeof(thread_columns) / sizeof(*thread_columns)] = {
		[9] = row_double((double)view->count->threads.other_switches / view->seconds),
		[10] = row_text("(others)"),
	};

	rows_open(rows, &top_thread_table, &(struct rows_layout){ .widths = widths });
	for (size_t i = 0; i < count && i < view->thread_count; i++)
		put_thread(view, rows, view->threads[i]);
	if (rows->format == ROWS_TEXT && view->count->threads.other_switches)
		rows_put(rows, others);
	rows_close(rows);
}

/* ---- all ---- */

struct table {
	void (*put)(const struct top_view *view, struct rows *rows, size_t count);
	size_t count; /* rows that there are */
	int has_others;
	size_t rows; /* and that are shown */
};

static void tables_list(const struct top_view *view, struct table tables[TOP_SECTIONS])
{
	const struct top_count *count = view->count;

	tables[TOP_EVENTS] = (struct table){ put_events, view->event_count,
					     count->other_events != 0, 0 };
	tables[TOP_SPANS] = (struct table){ put_spans, view->span_count, count->other_spans != 0,
					    0 };
	tables[TOP_SUMS] = (struct table){ put_sums, view->sums ? sums_lines_rows(view->sums) : 0,
					   0, 0 };
	tables[TOP_FUNCTIONS] = (struct table){ put_functions, view->function_count,
						count->other_samples != 0, 0 };
	tables[TOP_THREADS] = (struct table){ put_threads, view->thread_count,
					      count->threads.other_switches != 0, 0 };
	for (int i = TOP_EVENTS; i < TOP_SECTIONS; i++) {
		struct table *table = &tables[i];

		if (view->section != TOP_ALL && (int)view->section != i)
			table->count = table->has_others = 0;
		if (view->row_max && table->count > view->row_max)
			table->count = view->row_max;
	}
}

static int is_shown(const struct table *table)
{
	return table->count || table->has_others;
}

/* Share the lines of a terminal among tables: line by line, to each that has more to show. */
static void lines_share(struct table tables[TOP_SECTIONS], unsigned int lines)
{
	size_t left = lines, heads = 0;
	int gave = 1;

	for (int i = TOP_EVENTS; i < TOP_SECTIONS; i++)
		if (is_shown(&tables[i]))
			heads += 1 + (heads != 0) + (size_t)tables[i].has_others;
	left = left > heads ? left - heads : 0;
	while (left && gave) {
		gave = 0;
		for (int i = TOP_EVENTS; i < TOP_SECTIONS && left; i++) {
			if (tables[i].rows == tables[i].count)
				continue;
			tables[i].rows++;
			left--;
			gave = 1;
		}
	}
}

static unsigned int show_title(const struct top_view *view, struct text *text)
{
	char mark = TOP_MARK_TITLE, words[256], lost[32], ever[32];
	unsigned int room = view->columns > COLUMNS_MIN ? view->columns : COLUMNS_MIN, lines = 2;
	int bytes = snprintf(words, sizeof(words), "  %.1f s  %u process%s  lost %s%s%s%s",
			     view->at_s, view->processes, view->processes == 1 ? "" : "es",
			     quantity_show_count(view->lost, lost, sizeof(lost)),
			     view->lost_ever != view->lost ? " of " : "",
			     view->lost_ever != view->lost
				     ? quantity_show_count(view->lost_ever, ever, sizeof(ever))
				     : "",
			     view->count->throttled ? "  throttled" : "");

	text_add(text, &mark, 1);
	text_add(text, "waymark top  ", 13);
	room = room > (unsigned int)bytes + 13 + NAME_MIN ? room - (unsigned int)bytes - 13
							  : NAME_MIN;
	put_name(text, view, view->what, view->columns ? room : 0);
	text_format(text, "%s\n", words);
	if (view->left_out[0]) {
		text_add(text, "without ", 8);
		put_name(text, view, view->left_out,
			 view->columns > 8 + NAME_MIN ? view->columns - 8 : 0);
		text_add(text, "\n", 1);
		lines++;
	}
	text_add(text, "\n", 1);
	return lines;
}

void top_show(const struct top_view *view, struct text *text)
{
	static struct out out;
	unsigned int lines = show_title(view, text);
	struct table tables[TOP_SECTIONS] = { 0 };
	struct rows rows;
	int shown = 0;

	tables_list(view, tables);
	lines_share(tables, !view->lines	  ? UINT32_MAX
			    : view->lines > lines ? view->lines - lines
						  : 1);
	output_to_text(&out, text);
	rows_begin(&rows, &out, ROWS_TEXT);
	rows.columns = view->columns;
	for (int i = TOP_EVENTS; i < TOP_SECTIONS; i++) {
		if (!is_shown(&tables[i]))
			continue;
		if (shown++)
			out_char(&out, '\n');
		out_char(&out, TOP_MARK_HEAD);
		rows.has_text = 0; /* the empty line comes before the mark */
		tables[i].put(view, &rows, tables[i].rows);
	}
	(void)rows_end(&rows); /* text->error has it */
	if (!shown)
		text_format(text, "nothing in the last %.1f s\n", view->seconds);
}

/* ---- JSON ---- */

static const struct row_column top_columns[] = {
	{ "what", ROW_TEXT, ROW_PLAIN, 0, "is shown: a process, a program, CPUs" },
	{ "at", ROW_U64, ROW_SINCE, 0, "the interval's end" },
	{ "interval", ROW_U64, ROW_NS, 0, "its length" },
	{ "is_last", ROW_BOOL, ROW_PLAIN, 0, "no other interval follows" },
	{ "processes", ROW_U64, ROW_COUNT, 0, "that are recorded" },
	{ "event_total", ROW_U64, ROW_COUNT, 0, "but for begins and ends of spans" },
	{ "sample_total", ROW_U64, ROW_COUNT, 0, "of the kernel" },
	{ "thread_interval", ROW_U64, ROW_NS, 0, "that the times of threads are of" },
	{ "other_events", ROW_U64, ROW_COUNT, 0, "whose names had no room" },
	{ "other_spans", ROW_U64, ROW_COUNT, 0, "whose names or threads had no room" },
	{ "other_samples", ROW_U64, ROW_COUNT, 0, "whose addresses had no room" },
	{ "other_switches", ROW_U64, ROW_COUNT, 0, "whose threads had no room" },
	{ "lost", ROW_U64, ROW_COUNT, 0, "events" },
	{ "lost_by_kernel", ROW_U64, ROW_COUNT, 0, "events of these" },
	{ "throttled", ROW_U64, ROW_COUNT, 0, "how often the kernel held an event back" },
	{ "left_out", ROW_TEXT, ROW_PLAIN, 0, "default events that are not recorded, and why" },
};
static ROW_TABLE(top_table, "top", "What each object of waymark top --json begins with.",
		 top_columns);

static void put_top(const struct top_view *view, struct rows *rows)
{
	const struct top_count *count = view->count;
	const struct row_value row[] = {
		row_text(view->what),
		row_u64((uint64_t)(view->at_s * 1e9)),
		row_u64((uint64_t)(view->seconds * 1e9)),
		row_bool(view->is_last),
		row_u64(view->processes),
		row_u64(count->event_total),
		row_u64(count->sample_total),
		row_u64(count->threads.end_ns - count->threads.begin_ns),
		row_u64(count->other_events),
		row_u64(count->other_spans),
		row_u64(count->other_samples),
		row_u64(count->threads.other_switches),
		row_u64(view->lost),
		row_u64(count->kernel_lost),
		row_u64(count->throttled),
		row_words(view->left_out),
	};

	_Static_assert(sizeof(row) / sizeof(*row) == sizeof(top_columns) / sizeof(*top_columns),
		       "a value for each column");
	rows_record(rows, &top_table, row);
}

int top_show_json(const struct top_view *view, ssize_t (*write)(int, const void *, size_t))
{
	static struct out out;
	struct table tables[TOP_SECTIONS] = { 0 };
	struct rows rows;

	out_init(&out, STDOUT_FILENO);
	out.write = write;
	rows_begin(&rows, &out, ROWS_JSON);
	put_top(view, &rows);
	tables_list(view, tables);
	for (int i = TOP_EVENTS; i < TOP_SECTIONS; i++)
		tables[i].put(view, &rows, tables[i].count);
	return rows_end(&rows);
}
