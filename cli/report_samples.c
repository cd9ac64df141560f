/* SPDX-License-Identifier: MIT */
#include "cli/report_samples.h"

#include "base/array.h"
#include "base/name_match.h"
#include "cli/pulse.h"
#include "target/code/symbol.h"

#include <errno.h>
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

/* ---- by line, by thread ---- */

static int add_line(struct making *making, const struct samples_sum *sum)
{
	const struct stacks_one *one = &making->samples->stacks.all[sum->stack];
	struct samples_row row = { .function = one->function,
				   .count = sum->count,
				   .self = sum->weight,
				   .total = sum->weight };

	if (one->function->module)
		image_module_line(one->function->module, sum->address, &row.line);
	return row_add(making, &row) ? 0 : -ENOMEM;
}

static int add_thread(struct making *making, const struct samples_sum *sum)
{
	const struct samples_row row = { .thread = &making->samples->threads[sum->thread],
					 .count = sum->count,
					 .self = sum->weight,
					 .total = sum->weight };

	return row_add(making, &row) ? 0 : -ENOMEM;
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
 * The innermost call of the function; where it was called by itself, the call from elsewhere that
 * came before.
 */
static int add_caller(struct making *making, const struct samples_sum *sum)
{
	const struct stacks_one *all = making->samples->stacks.all;
	const char *glob = making->options->callee;
	struct samples_row row = { .count = sum->count, .self = sum->weight, .total = sum->weight };
	uint32_t at = sum->stack;

	while (all[at].function && !is_callee(glob, all[at].function))
		at = all[at].outer;
	if (!all[at].function)
		return 0;
	while (all[at].function && is_callee(glob, all[at].function))
		at = all[at].outer;
	row.function = all[at].function;
	making->table->weight += sum->weight;
	making->table->samples += sum->count;
	return row_add(making, &row) ? 0 : -ENOMEM;
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

static int add(struct making *making, size_t number)
{
	const struct samples_sum *sum = &making->samples->sums[number];

	switch (making->options->by) {
	case SAMPLES_BY_LINE:
		return add_line(making, sum);
	case SAMPLES_BY_THREAD:
		return add_thread(making, sum);
	case SAMPLES_BY_CALLER:
		return add_caller(making, sum);
	default:
		return add_functions(making, number);
	}
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

int report_samples(struct report_samples *report, const char *dir,
		   const struct report_samples_options *options)
{
	int err;

	*report = (struct report_samples){ .options = options };
	err = trace_reader_open(&report->reader, dir);
	if (err || !samples_are_in(report->reader))
		return err;
	err = samples_open(&report->samples, report->reader, &options->samples);
	if (!err)
		err = samples_read(&report->samples, NULL, NULL);
	pulse_end();
	if (!err)
		report->tables = calloc(report->samples.event_count + 1, sizeof(*report->tables));
	if (!err && !report->tables)
		err = -ENOMEM;
	for (uint32_t i = 0; i < report->samples.event_count && !err; i++)
		err = table_make(&report->tables[i], &report->samples, i, options);
	return err;
}

void report_samples_release(struct report_samples *report)
{
	for (size_t i = 0; report->tables && i < report->samples.event_count; i++)
		free(report->tables[i].rows);
	free(report->tables);
	if (report->samples.reader)
		samples_close(&report->samples);
	if (report->reader)
		trace_reader_close(report->reader);
}
