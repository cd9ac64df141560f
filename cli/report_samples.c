/* SPDX-License-Identifier: MIT */
#include "cli/report.h"

#include "base/array.h"
#include "base/name_match.h"
#include "cli/pulse.h"
#include "cli/trail_words.h"
#include "target/code/symbol.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One event's rows being made. */
struct making {
	struct samples_table *table;
	struct samples *samples;
	const struct report_samples_options *options;
	size_t **of;	 /* by process and number of the function: its row, + 1 */
	size_t *seen_in; /* of each row: the sum that was added to its total last, + 1 */
	size_t seen_room;
};

static size_t row_add(struct making *making, const struct samples_row *row)
{
	struct samples_table *table = making->table;

	if (array_grow(&table->rows, &table->room, table->count + 1, sizeof(*table->rows)) ||
	    array_grow(&making->seen_in, &making->seen_room, table->count + 1,
		       sizeof(*making->seen_in)))
		return 0;
	making->seen_in[table->count] = 0;
	table->rows[table->count] = *row;
	return ++table->count;
}

/* The row of a stack's innermost function. NULL: no memory. */
static struct samples_row *row_of(struct making *making, const struct stacks_one *one)
{
	size_t **of = &making->of[one->process], *row;

	if (!*of)
		*of = calloc(samples_function_count(making->samples, one->process) + 1,
			     sizeof(**of));
	if (!*of)
		return NULL;
	row = &(*of)[one->function->number];
	if (!*row)
		*row = row_add(making, &(struct samples_row){ .function = one->function });
	return *row ? &making->table->rows[*row - 1] : NULL;
}

/* ---- by function ---- */

static int add_functions(struct making *making, size_t number)
{
	const struct samples_sum *sum = &making->samples->sums[number];
	const struct stacks_one *all = making->samples->stacks.all;

	for (uint32_t at = sum->stack; all[at].function; at = all[at].outer) {
		struct samples_row *row = row_of(making, &all[at]);
		size_t *seen;

		if (!row)
			return -ENOMEM;
		if (at == sum->stack) {
			row->self += sum->weight;
			row->count += sum->count;
		}
		/* a function that calls itself is in the stack more than once */
		seen = &making->seen_in[row - making->table->rows];
		if (*seen != number + 1)
			row->total += sum->weight;
		*seen = number + 1;
	}
	return 0;
}

/* ---- callers ---- */

/* By its name as it is shown, or as probes take it. */
static int is_callee(const char *glob, const struct function *function)
{
	char text[FUNCTION_TEXT_BYTES];

	return name_match(glob, function_text(function, text, sizeof(text))) ||
	       (function->linkage && code_name_fits(glob, function->linkage));
}

/*
 * The caller of the function's innermost call in a stack. Where the function called itself, the
 * caller of the first of these calls. NULL: it is not in the stack; a function NULL: no caller.
 */
static const struct stacks_one *caller_of(const struct stacks_one *all, uint32_t at,
					  const char *glob)
{
	while (all[at].function && !is_callee(glob, all[at].function))
		at = all[at].outer;
	if (!all[at].function)
		return NULL;
	while (all[at].function && is_callee(glob, all[at].function))
		at = all[at].outer;
	return &all[at];
}

/* ---- rows, the same ones made one ---- */

static int by_function(const struct function *a, const struct function *b)
{
	return a && b ? function_compare(a, b) : (a != NULL) - (b != NULL);
}

static int by_key(const void *one, const void *other)
{
	const struct samples_row *a = one, *b = other;
	int order;

	if (a->thread || b->thread)
		return (a->thread > b->thread) - (a->thread < b->thread);
	order = by_function(a->function, b->function);
	if (!order && a->line.source != b->line.source)
		order = !a->line.source || !b->line.source
				? (a->line.source != NULL) - (b->line.source != NULL)
				: strcmp(a->line.source, b->line.source);
	return order ? order : (a->line.line > b->line.line) - (a->line.line < b->line.line);
}

static int by_weight(const void *one, const void *other)
{
	const struct samples_row *a = one, *b = other;

	if (a->self != b->self)
		return a->self < b->self ? 1 : -1;
	if (a->total != b->total)
		return a->total < b->total ? 1 : -1;
	return by_key(one, other);
}

static void rows_unite(struct samples_table *table)
{
	size_t kept = 0;

	if (table->count)
		qsort(table->rows, table->count, sizeof(*table->rows), by_key);
	for (size_t i = 0; i < table->count; i++) {
		struct samples_row *last = kept ? &table->rows[kept - 1] : NULL;

		if (last && !by_key(last, &table->rows[i])) {
			last->count += table->rows[i].count;
			last->self += table->rows[i].self;
			last->total += table->rows[i].total;
		} else {
			table->rows[kept++] = table->rows[i];
		}
	}
	table->count = kept;
	if (kept)
		qsort(table->rows, kept, sizeof(*table->rows), by_weight);
}

/* What a sum of samples adds to the table. 0 or -ENOMEM. */
static int add(struct making *making, size_t number)
{
	const struct samples_sum *sum = &making->samples->sums[number];
	const struct stacks_one *all = making->samples->stacks.all, *one = &all[sum->stack];
	struct samples_row row = { .count = sum->count, .self = sum->weight, .total = sum->weight };

	switch (making->options->by) {
	case SAMPLES_BY_FUNCTION:
		return add_functions(making, number);
	case SAMPLES_BY_LINE:
		row.function = one->function;
		if (one->function->module)
			image_module_line(one->function->module, sum->address, &row.line);
		break;
	case SAMPLES_BY_THREAD:
		row.thread = &making->samples->threads[sum->thread];
		break;
	case SAMPLES_BY_CALLER:
		one = caller_of(all, sum->stack, making->options->callee);
		if (!one)
			return 0;
		row.function = one->function;
		making->table->weight += sum->weight;
		making->table->samples += sum->count;
		break;
	}
	return row_add(making, &row) ? 0 : -ENOMEM;
}

/* The rows of an event, as the options want them. 0 or -ENOMEM. */
static int table_make(struct samples_table *table, struct samples *samples, uint32_t event,
		      const struct report_samples_options *options)
{
	uint32_t processes = samples->reader->meta.process_count;
	struct making making = { .table = table, .samples = samples, .options = options };
	int err = 0;

	*table = (struct samples_table){ 0 };
	making.of = calloc(processes + 1ul, sizeof(*making.of));
	if (!making.of)
		return -ENOMEM;
	for (size_t i = 0; i < samples->sum_count && !err; i++)
		if (samples->sums[i].event == event)
			err = add(&making, i);
	if (options->by != SAMPLES_BY_CALLER) {
		table->weight = samples->events[event].weight;
		table->samples = samples->events[event].count;
	}
	for (uint32_t i = 0; i <= processes; i++)
		free(making.of[i]);
	free(making.of);
	free(making.seen_in);
	if (!err)
		rows_unite(table);
	return err;
}

/* ---- all events ---- */

int report_samples(struct report_samples *report, struct images *images,
		   const struct report_samples_options *options)
{
	int err;

	*report = (struct report_samples){ .options = options };
	if (!samples_events(images->reader, options->samples.event, NULL, 0))
		return 0;
	err = samples_open(&report->samples, images, &options->samples);
	return err ? err : samples_observe(&report->samples, NULL, NULL);
}

int report_samples_finish(struct report_samples *report)
{
	int err = 0;

	pulse_end();
	report->tables = calloc(report->samples.event_count + 1, sizeof(*report->tables));
	if (!report->tables)
		return -ENOMEM;
	for (uint32_t i = 0; i < report->samples.event_count && !err; i++)
		err = table_make(&report->tables[i], &report->samples, i, report->options);
	return err;
}

/* ---- rows ---- */

static const struct row_column sample_columns[] = {
	{ "event", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "SUBSYSTEM:EVENT of the kernel" },
	{ "unit", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "of weights: ns, events or samples" },
	{ "samples", ROW_U64, ROW_COUNT, ROW_DETAIL,
	  "how many; of callers, those in the function and what it called" },
	{ "weight", ROW_U64, ROW_PLAIN, ROW_DETAIL, "of these" },
	{ "cut_stacks", ROW_U64, ROW_COUNT, ROW_DETAIL, "stacks without their outermost part" },
};
static ROW_TABLE(report_sample_table, "sample", "The kernel's events that say where threads were.",
		 sample_columns);

/* What all kinds of rows begin with, and what each of its own has behind that. */
#define SAMPLE_SELF(name, meaning)                                                                 \
	{ "event", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "of the table sample" },                       \
	{                                                                                          \
		name, ROW_DOUBLE, ROW_SHARE, 0, meaning                                            \
	}

#define SAMPLE_WEIGHTS                                                                             \
	{ "samples", ROW_U64, ROW_COUNT, 0, "how many" },                                          \
	{                                                                                          \
		"weight", ROW_U64, ROW_PLAIN, ROW_DETAIL, "of these"                               \
	}

#define SAMPLE_CODE                                                                                \
	{ "module", ROW_TEXT, ROW_PLAIN, 0, "the file that it is from" },                          \
		{ "linkage", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "its name to the linker" },          \
		{ "kernel", ROW_BOOL, ROW_PLAIN, ROW_DETAIL, "it is the kernel's" },               \
		{ "source", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "the file" },                         \
		{ "line", ROW_U64, ROW_PLAIN, ROW_DETAIL, "and line of source" },                  \
	{                                                                                          \
		"place", ROW_TEXT, ROW_PLAIN, ROW_FOR_TEXT, "the two"                              \
	}

static const struct row_column function_columns[] = {
	SAMPLE_SELF("self", "of the samples are in the function itself"),
	{ "total", ROW_DOUBLE, ROW_SHARE, 0, "are in it or in what it called; needs callchain" },
	SAMPLE_WEIGHTS,
	{ "total_weight", ROW_U64, ROW_PLAIN, ROW_DETAIL, "in it and what it called" },
	{ "function", ROW_TEXT, ROW_PLAIN, 0, "its name" },
	SAMPLE_CODE,
	{ "address", ROW_ADDRESS, ROW_PLAIN, ROW_DETAIL, "where it begins" },
};
static ROW_TABLE(report_sample_function_table, "sample_function", "The functions of samples.",
		 function_columns);

static const struct row_column line_columns[] = {
	SAMPLE_SELF("self", "of the samples are in the line"),
	SAMPLE_WEIGHTS,
	{ "function", ROW_TEXT, ROW_PLAIN, 0, "that has the line" },
	SAMPLE_CODE,
};
static ROW_TABLE(report_sample_line_table, "sample_line",
		 "The lines of source of samples (--lines).", line_columns);

static const struct row_column caller_columns[] = {
	SAMPLE_SELF("share", "of the function's samples, those that this caller called it for"),
	SAMPLE_WEIGHTS,
	{ "function", ROW_TEXT, ROW_PLAIN, 0, "the caller; null: none is known" },
	SAMPLE_CODE,
};
static ROW_TABLE(report_sample_caller_table, "sample_caller", "Who called a function (--callers).",
		 caller_columns);

static const struct row_column thread_columns[] = {
	SAMPLE_SELF("self", "of the samples are of the thread"),
	SAMPLE_WEIGHTS,
	{ "thread", ROW_TEXT, ROW_PLAIN, 0, "its name" },
	{ "tid", ROW_U64, ROW_PLAIN, 0, "its number" },
	{ "pid", ROW_U64, ROW_PLAIN, 0, "its process" },
	{ "program", ROW_TEXT, ROW_PLAIN, 0, "of the process" },
};
static ROW_TABLE(report_sample_thread_table, "sample_thread", "The threads of samples (--threads).",
		 thread_columns);

static const struct row_table *const tables[] = {
	[SAMPLES_BY_FUNCTION] = &report_sample_function_table,
	[SAMPLES_BY_LINE] = &report_sample_line_table,
	[SAMPLES_BY_THREAD] = &report_sample_thread_table,
	[SAMPLES_BY_CALLER] = &report_sample_caller_table,
};

static struct row_value share(uint64_t part, uint64_t of)
{
	return row_double(of ? 100.0 * (double)part / (double)of : 0);
}

/* The values of SAMPLE_CODE. Text has the file's name alone. */
#define CODE_VALUES(rows, of, at, text)                                                            \
	row_text((of)->module                                                                      \
			 ? (rows)->format == ROWS_TEXT ? (of)->module->name : (of)->module->path   \
			 : NULL),                                                                  \
		row_text((of)->linkage), row_bool(function_is_kernel(of)), row_text((at)->source), \
		(at)->source ? row_u64((at)->line) : row_null(),                                   \
		row_text(words_line_text(at, text))

static void sample_row(struct rows *rows, const struct report_samples *report, size_t number,
		       const struct samples_row *row)
{
	static const struct function unknown;
	const struct samples_event *event = &report->samples.events[number];
	const struct samples_table *table = &report->tables[number];
	const struct function *function = row->function ? row->function : &unknown;
	const struct row_value name = row_text(event->name), self = share(row->self, table->weight),
			       samples = row_u64(row->count), weight = row_u64(row->self);
	char room[FUNCTION_TEXT_BYTES], place[WORDS_LINE_BYTES];
	const char *text = row->function ? function_text(function, room, sizeof(room)) : "";
	struct image_line line = row->line;

	if (row->function && report->options->by != SAMPLES_BY_LINE)
		line = function_line(function);
	switch (report->options->by) {
	case SAMPLES_BY_FUNCTION:
		ROWS_PUT(rows, function_columns, name, self,
			 event->has_stacks || rows->format != ROWS_TEXT
				 ? share(row->total, table->weight)
				 : row_null(),
			 samples, weight, row_u64(row->total), row_words(text),
			 CODE_VALUES(rows, function, &line, place), row_address(function->start));
		break;
	case SAMPLES_BY_LINE:
		ROWS_PUT(rows, line_columns, name, self, samples, weight, row_words(text),
			 CODE_VALUES(rows, function, &line, place));
		break;
	case SAMPLES_BY_CALLER:
		ROWS_PUT(rows, caller_columns, name, self, samples, weight,
			 row_words(!*text && rows->format == ROWS_TEXT ? "(no caller is known)"
								       : text),
			 CODE_VALUES(rows, function, &line, place));
		break;
	case SAMPLES_BY_THREAD:
		ROWS_PUT(rows, thread_columns, name, self, samples, weight,
			 row_text(row->thread->comm), row_u64(row->thread->tid),
			 row_u64(row->thread->pid), row_text(row->thread->program));
		break;
	}
}

/* "Samples      sample:cpu-clock: 12, 1.200 s in work and what it called" */
static void sample_title(const struct report_samples *report, size_t number, char *text,
			 size_t room)
{
	const struct samples_event *event = &report->samples.events[number];
	const struct samples_table *table = &report->tables[number];
	int is_of_callee = report->options->by == SAMPLES_BY_CALLER;
	char amount[48] = "", cut[64] = "";

	if (event->is_time)
		snprintf(amount, sizeof(amount), ", %.3f s", (double)table->weight / 1e9);
	else if (event->has_period)
		snprintf(amount, sizeof(amount), ", %" PRIu64 " events", table->weight);
	if (event->cut)
		snprintf(cut, sizeof(cut), "; %" PRIu64 " stacks lack their outer part",
			 event->cut);
	snprintf(text, room, "Samples      %s: %" PRIu64 "%s%s%s%s%s", event->name, table->samples,
		 amount, is_of_callee ? " in " : "", is_of_callee ? report->options->callee : "",
		 is_of_callee ? " and what it called" : "", cut);
}

static void event_rows(struct rows *rows, const struct report_samples *report)
{
	rows_open(rows, &report_sample_table, NULL);
	for (uint32_t i = 0; i < report->samples.event_count; i++) {
		const struct samples_event *event = &report->samples.events[i];

		ROWS_PUT(rows, sample_columns, row_text(event->name),
			 row_text(event->is_time      ? "ns"
				  : event->has_period ? "events"
						      : "samples"),
			 row_u64(report->tables[i].samples), row_u64(report->tables[i].weight),
			 row_u64(event->cut));
	}
	rows_close(rows);
}

void report_samples_print(const struct report_samples *report, struct rows *rows)
{
	const struct row_table *table = tables[report->options->by];
	struct rows_layout layout = { .more = "--top 0 shows all" };
	int is_text = rows->format == ROWS_TEXT;
	char title[1024];
	uint64_t top;

	if (!report->tables)
		return;
	top = report->options->top ? report->options->top : UINT64_MAX;
	layout.title = title;
	event_rows(rows, report);
	if (!is_text)
		rows_open(rows, table, &layout);
	for (uint32_t i = 0; i < report->samples.event_count; i++) {
		const struct samples_table *of = &report->tables[i];

		sample_title(report, i, title, sizeof(title));
		if (is_text)
			rows_open(rows, table, &layout);
		for (size_t j = 0; j < of->count && j < top; j++)
			sample_row(rows, report, i, &of->rows[j]);
		if (of->count > top)
			rows_skip(rows, of->count - top);
		if (is_text)
			rows_close(rows);
	}
	if (!is_text)
		rows_close(rows);
}

void report_samples_release(struct report_samples *report)
{
	for (size_t i = 0; report->tables && i < report->samples.event_count; i++)
		free(report->tables[i].rows);
	free(report->tables);
	if (report->samples.reader)
		samples_close(&report->samples);
}
