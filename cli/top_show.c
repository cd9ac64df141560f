/* SPDX-License-Identifier: MIT */
#include "cli/top_show.h"

#include "base/out.h"
#include "base/quantity.h"

#include <stdio.h>

#define COLUMNS_MIN 40u
#define NAME_MIN 12u
#define NAME_PLAIN 40u /* where there is no terminal: a longer name moves what is behind it */

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

static void put_time(struct text *text, double ns)
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	unsigned int unit = 0;
	char words[32];

	while (ns >= 999.5 && unit < 3) {
		ns /= 1000;
		unit++;
	}
	snprintf(words, sizeof(words), "%.*f %s", unit && ns < 99.95 ? 1 : 0, ns, units[unit]);
	text_format(text, " %9s", words);
}

static void put_count(struct text *text, double count, int width)
{
	char words[32];

	if (count < 9.95 && count > 0)
		snprintf(words, sizeof(words), "%.1f", count);
	else
		quantity_show_count((uint64_t)(count + 0.5), words, sizeof(words));
	text_format(text, " %*s", width, words);
}

static double share(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static unsigned int name_width(const struct top_view *view, unsigned int others)
{
	if (!view->columns)
		return NAME_PLAIN;
	return view->columns > others + NAME_MIN ? view->columns - others : NAME_MIN;
}

static void put_head(struct text *text, const struct top_view *view, const char *name,
		     unsigned int width, const char *others)
{
	char mark = TOP_MARK_HEAD;

	text_add(text, &mark, 1);
	put_name(text, view, name, width);
	text_format(text, "%s\n", others);
}

/* ---- tables ---- */

static void show_events(const struct top_view *view, struct text *text, size_t rows)
{
	unsigned int width = name_width(view, 13 + 14 + 8);
	uint64_t total = view->count->event_total;

	put_head(text, view, "EVENT", width, "   PER SECOND         COUNT   SHARE");
	for (size_t i = 0; i < rows && i < view->event_count; i++) {
		const struct top_event *event = view->events[i];

		put_name(text, view, event->name, width);
		put_count(text, (double)event->count / view->seconds, 12);
		put_count(text, (double)event->count, 13);
		if (event->is_grown)
			text_format(text, "       -\n");
		else
			text_format(text, "  %5.1f%%\n", share(event->count, total));
	}
	if (view->count->other_events) {
		put_name(text, view, "(others)", width);
		put_count(text, (double)view->count->other_events / view->seconds, 12);
		put_count(text, (double)view->count->other_events, 13);
		text_format(text, "  %5.1f%%\n", share(view->count->other_events, total));
	}
}

static void show_spans(const struct top_view *view, struct text *text, size_t rows)
{
	unsigned int width = name_width(view, 12 + 3 * 10 + 7);

	put_head(text, view, "SPAN", width, "       COUNT      MEAN       P99       MAX   OPEN");
	for (size_t i = 0; i < rows && i < view->span_count; i++) {
		const struct top_span *span = view->spans[i];

		put_name(text, view, span->name, width);
		put_count(text, (double)span->times.count, 11);
		if (span->times.count) {
			put_time(text, (double)span->sum_ns / (double)span->times.count);
			put_time(text, (double)histogram_quantile(&span->times, 0.99));
			put_time(text, (double)span->times.max);
		} else {
			text_format(text, "%30s", "");
		}
		put_count(text, (double)span->open, 6);
		text_add(text, "\n", 1);
	}
	if (view->count->other_spans) {
		put_name(text, view, "(others)", width);
		put_count(text, (double)view->count->other_spans, 11);
		text_add(text, "\n", 1);
	}
}

static void show_functions(const struct top_view *view, struct text *text, size_t rows)
{
	unsigned int width = name_width(view, 21 + 9 + 8);
	uint64_t total = view->count->sample_total;

	put_head(text, view, "FUNCTION", width, " MODULE                SAMPLES   SHARE");
	for (size_t i = 0; i < rows && i < view->function_count; i++) {
		const struct top_function *function = &view->functions[i];

		put_name(text, view, function->name, width);
		text_add(text, " ", 1);
		put_name(text, view, function->module, 20);
		put_count(text, (double)function->samples, 8);
		text_format(text, "  %5.1f%%\n", share(function->samples, total));
	}
	if (view->count->other_samples) {
		put_name(text, view, "(others)", width + 21);
		put_count(text, (double)view->count->other_samples, 8);
		text_format(text, "  %5.1f%%\n", share(view->count->other_samples, total));
	}
}

static void show_threads(const struct top_view *view, struct text *text, size_t rows)
{
	unsigned int width = name_width(view, 9 + 9 + 10 + 10 + 10 + 12);

	width = width > 20 && view->columns ? 20 : width;
	put_head(text, view, "THREAD", width,
		 "      TID      PID   RUNNING  RUNNABLE    ASLEEP  SWITCHES/S");
	for (size_t i = 0; i < rows && i < view->thread_count; i++) {
		const struct top_thread *thread = view->threads[i];

		put_name(text, view, thread->comm[0] ? thread->comm : "?", width);
		text_format(text, " %8u %8u", thread->tid, thread->pid);
		for (int state = TOP_RUNNING; state <= TOP_ASLEEP; state++)
			text_format(text, "  %6.1f %%",
				    top_thread_percent(view, thread, (enum top_state)state));
		if (view->has_times_alone)
			text_format(text, " %11s\n", "-");
		else {
			put_count(text, (double)thread->switches / view->seconds, 11);
			text_add(text, "\n", 1);
		}
	}
	if (view->count->threads.other_switches) {
		put_name(text, view, "(others)", width + 48);
		put_count(text, (double)view->count->threads.other_switches / view->seconds, 11);
		text_add(text, "\n", 1);
	}
}

/* ---- all ---- */

struct table {
	void (*show)(const struct top_view *view, struct text *text, size_t rows);
	size_t count; /* rows that there are */
	int has_others;
	size_t rows; /* and that are shown */
};

static void tables_list(const struct top_view *view, struct table tables[TOP_SECTIONS])
{
	const struct top_count *count = view->count;

	tables[TOP_EVENTS] = (struct table){ show_events, view->event_count,
					     count->other_events != 0, 0 };
	tables[TOP_SPANS] = (struct table){ show_spans, view->span_count, count->other_spans != 0,
					    0 };
	tables[TOP_FUNCTIONS] = (struct table){ show_functions, view->function_count,
						count->other_samples != 0, 0 };
	tables[TOP_THREADS] = (struct table){ show_threads, view->thread_count,
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
	unsigned int lines = show_title(view, text);
	struct table tables[TOP_SECTIONS] = { 0 };
	int shown = 0;

	tables_list(view, tables);
	lines_share(tables, !view->lines	  ? UINT32_MAX
			    : view->lines > lines ? view->lines - lines
						  : 1);
	for (int i = TOP_EVENTS; i < TOP_SECTIONS; i++) {
		if (!is_shown(&tables[i]))
			continue;
		if (shown++)
			text_add(text, "\n", 1);
		tables[i].show(view, text, tables[i].rows);
	}
	if (!shown)
		text_format(text, "nothing in the last %.1f s\n", view->seconds);
}
