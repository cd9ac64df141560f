/* SPDX-License-Identifier: MIT */
/* The tables of samples as text and as JSON. */
#include "cli/report_samples.h"

#include "base/name_match.h"
#include "cli/trail_words.h"

#include <inttypes.h>
#include <stdio.h>

#define NO_CALLER "(no caller is known)"

static double share(uint64_t part, uint64_t of)
{
	return of ? 100.0 * (double)part / (double)of : 0;
}

/* A name that a terminal can be shown. Valid until the next. */
static const char *shown(const char *name)
{
	static char text[4096];

	out_tame(text, sizeof(text), name);
	return text;
}

/* ---- text ---- */

static void print_function(const struct function *function)
{
	const struct image_module *module = function->module;
	char text[FUNCTION_TEXT_BYTES];

	printf("%s", shown(function_text(function, text, sizeof(text))));
	if (!function->name || !module)
		return;
	printf(module->name[0] == '[' ? " %s" : " [%s]", shown(module->name));
}

/* The line itself, or that on which the function begins. */
static struct image_line line_of(const struct samples_row *row, enum samples_by by)
{
	return by == SAMPLES_BY_LINE ? row->line : function_line(row->function);
}

static void print_what(const struct samples_row *row, enum samples_by by)
{
	struct image_line line;

	if (row->thread) {
		printf("%s-%u", shown(row->thread->comm), row->thread->tid);
		printf(" (process %u, %s)", row->thread->pid, shown(row->thread->program));
		return;
	}
	if (!row->function) {
		printf(NO_CALLER);
		return;
	}
	print_function(row->function);
	line = line_of(row, by);
	if (line.source)
		printf(" %s:%u", shown(name_last_part(line.source)), line.line);
}

static void print_amount(const struct samples_event *event, const struct samples_table *table)
{
	if (event->is_time)
		printf(", %.3f s", (double)table->weight / 1e9);
	else if (event->has_period)
		printf(", %" PRIu64 " events", table->weight);
}

static void print_table(const struct report_samples *report, uint32_t number)
{
	const struct samples_event *event = &report->samples.events[number];
	const struct samples_table *table = &report->tables[number];
	enum samples_by by = report->options->by;
	int has_total = by == SAMPLES_BY_FUNCTION && event->has_stacks;
	static const char *const titles[] = { "FUNCTION", "LINE", "THREAD", "CALLER" };

	printf("\nSamples      %s: %" PRIu64, shown(event->name), table->samples);
	print_amount(event, table);
	if (by == SAMPLES_BY_CALLER)
		printf(" in %s and what it called", shown(report->options->callee));
	printf("\n");
	if (event->cut)
		printf("             %" PRIu64 " stacks lack their outer part\n", event->cut);
	printf("%8s%s%12s  %s\n", by == SAMPLES_BY_CALLER ? "share" : "self",
	       has_total ? "   total" : "", "samples", titles[by]);
	for (size_t i = 0; i < table->count && i < report->options->last; i++) {
		const struct samples_row *row = &table->rows[i];

		printf("%7.1f%%", share(row->self, table->weight));
		if (has_total)
			printf("%7.1f%%", share(row->total, table->weight));
		printf("%12" PRIu64 "  ", row->count);
		print_what(row, by);
		printf("\n");
	}
	if (table->count > report->options->last)
		printf("-- %" PRIu64 " more: -n 0 shows all\n",
		       (uint64_t)table->count - report->options->last);
}

void report_samples_text(const struct report_samples *report)
{
	for (uint32_t i = 0; report->tables && i < report->samples.event_count; i++)
		print_table(report, i);
}

/* ---- JSON ---- */

static void json_function(struct json *json, const struct function *function)
{
	char text[FUNCTION_TEXT_BYTES];

	json_string(json, "function", function_text(function, text, sizeof(text)));
	json_words(json, "linkage", function->linkage);
	json_words(json, "module", function->module ? function->module->path : NULL);
	json_bool(json, "kernel", function_is_kernel(function));
}

static void json_row(struct json *json, const struct report_samples *report,
		     const struct samples_table *table, const struct samples_row *row)
{
	enum samples_by by = report->options->by;
	struct image_line line;

	json_open(json, NULL, '{');
	if (row->thread) {
		json_number(json, "pid", row->thread->pid);
		json_number(json, "tid", row->thread->tid);
		json_string(json, "comm", row->thread->comm);
		json_string(json, "program", row->thread->program);
	} else if (row->function) {
		json_function(json, row->function);
		line = line_of(row, by);
		if (by == SAMPLES_BY_FUNCTION)
			words_json_address(json, "address", row->function->start);
		words_json_line(json, &line);
	} else {
		json_null(json, "function");
	}
	json_number(json, "samples", row->count);
	json_number(json, "self", row->self);
	json_decimal(json, "self_percent", share(row->self, table->weight), 3);
	if (by == SAMPLES_BY_FUNCTION) {
		json_number(json, "total", row->total);
		json_decimal(json, "total_percent", share(row->total, table->weight), 3);
	}
	json_close(json, '}');
}

void report_samples_json(const struct report_samples *report, struct json *json)
{
	static const char *const keys[] = { "functions", "lines", "threads", "callers" };

	json_open(json, "samples", '[');
	for (uint32_t i = 0; report->tables && i < report->samples.event_count; i++) {
		const struct samples_event *event = &report->samples.events[i];
		const struct samples_table *table = &report->tables[i];

		json_open(json, NULL, '{');
		json_string(json, "event", event->name);
		json_string(json, "unit",
			    event->is_time	? "ns"
			    : event->has_period ? "events"
						: "samples");
		json_number(json, "samples", table->samples);
		json_number(json, "weight", table->weight);
		json_number(json, "cut_stacks", event->cut);
		json_open(json, keys[report->options->by], '[');
		for (size_t j = 0; j < table->count && j < report->options->last; j++)
			json_row(json, report, table, &table->rows[j]);
		json_close(json, ']');
		json_close(json, '}');
	}
	json_close(json, ']');
}
