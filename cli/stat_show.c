/* SPDX-License-Identifier: MIT */
#include "cli/stat_show.h"

#include "base/quantity.h"
#include "read/rows/render.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The count as if the unit had counted it all the time; -1: it never did. */
static double stat_scaled(const struct count_value *value)
{
	if (!value->running_ns)
		return value->enabled_ns ? -1 : (double)value->count;
	return (double)value->count * ((double)value->enabled_ns / (double)value->running_ns);
}

static void mean_add(double *mean, double *squares, unsigned int runs, double value)
{
	double before = value - *mean;

	*mean += before / runs;
	*squares += before * (value - *mean);
}

void stat_run_add(struct stat_result *result, double elapsed_s)
{
	result->runs++;
	mean_add(&result->elapsed_s, &result->elapsed_squares, result->runs, elapsed_s);
	for (size_t i = 0; i < result->row_count; i++)
		mean_add(&result->rows[i].mean, &result->rows[i].squares, result->runs,
			 stat_scaled(&result->rows[i].value));
}

/* The standard error of a mean, in percent of it. */
static double spread(double mean, double squares, unsigned int runs)
{
	if (runs < 2 || mean <= 0)
		return 0;
	return 100 * sqrt(squares / (runs - 1) / runs) / mean;
}

/* The mean count of a kernel event; below 0: it is not among the rows. */
static double mean_of(const struct stat_result *result, uint32_t type, uint64_t config)
{
	for (size_t i = 0; i < result->row_count; i++) {
		const struct stat_row *row = &result->rows[i];

		if (row->event.type == type && row->event.config == config)
			return row->mean;
	}
	return -1;
}

static double clock_of(const struct stat_result *result)
{
	double ns = mean_of(result, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK);

	return ns >= 0 ? ns : mean_of(result, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);
}

/* What a count means beside the others. */
static void relation(const struct stat_result *result, const struct stat_row *row, char *text,
		     size_t bytes)
{
	double cycles = mean_of(result, PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
	double branches = mean_of(result, PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS);
	double clock_ns = clock_of(result), per_s;

	text[0] = '\0';
	if (!strcmp(row->event.unit, "ns")) {
		if (result->elapsed_s > 0)
			snprintf(text, bytes, "%.3f CPUs used",
				 row->mean / 1e9 / result->elapsed_s);
		return;
	}
	if (row->event.type == PERF_TYPE_HARDWARE && cycles > 0 &&
	    row->event.config == PERF_COUNT_HW_INSTRUCTIONS) {
		snprintf(text, bytes, "%.2f per cycle", row->mean / cycles);
		return;
	}
	if (row->event.type == PERF_TYPE_HARDWARE && branches > 0 &&
	    row->event.config == PERF_COUNT_HW_BRANCH_MISSES) {
		snprintf(text, bytes, "%.2f %% of all branches", 100 * row->mean / branches);
		return;
	}
	if (clock_ns <= 0 || row->event.unit[0])
		return;
	per_s = row->mean / (clock_ns / 1e9);
	snprintf(text, bytes, "%.3f %s/s",
		 per_s >= 1e9	? per_s / 1e9
		 : per_s >= 1e6 ? per_s / 1e6
		 : per_s >= 1e3 ? per_s / 1e3
				: per_s,
		 per_s >= 1e9	? "G"
		 : per_s >= 1e6 ? "M"
		 : per_s >= 1e3 ? "K"
				: "");
}

static void count_text(const struct stat_row *row, double count, char *text, size_t bytes)
{
	if (count < 0)
		snprintf(text, bytes, "<not counted>");
	else if (!strcmp(row->event.unit, "ns"))
		snprintf(text, bytes, "%.2f ms", count / 1e6);
	else if (row->event.unit[0] || row->event.scale < 1 || row->event.scale > 1)
		snprintf(text, bytes, "%.2f %s", count * row->event.scale, row->event.unit);
	else
		quantity_show_count((uint64_t)(count + 0.5), text, bytes);
}

static int is_scaled(const struct stat_row *row)
{
	return row->value.running_ns && row->value.running_ns < row->value.enabled_ns;
}

static const struct row_column count_columns[] = {
	{ "at", ROW_DOUBLE, ROW_PLAIN, 0, "with -I: seconds since the begin" },
	{ "count", ROW_DOUBLE, ROW_PLAIN, 0,
	  "of the last run, scaled; null: it was never counted" },
	{ "unit", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "null for plain counts" },
	{ "event", ROW_TEXT, ROW_PLAIN, 0, "what was counted" },
	{ "note", ROW_TEXT, ROW_PLAIN, 0, "what the count means beside the others" },
	{ "scale", ROW_DOUBLE, ROW_PLAIN, ROW_DETAIL, "a count is so many of its unit" },
	{ "enabled", ROW_U64, ROW_NS, ROW_DETAIL, "how long it was wanted" },
	{ "running", ROW_U64, ROW_NS, ROW_DETAIL, "how long it was counted" },
	{ "scaled", ROW_BOOL, ROW_PLAIN, ROW_DETAIL, "it was not counted all that time" },
	{ "mean", ROW_DOUBLE, ROW_PLAIN, ROW_DETAIL, "with -r: of all runs" },
	{ "error", ROW_DOUBLE, ROW_SHARE, 0, "with -r: the mean's standard error" },
	{ "counted", ROW_DOUBLE, ROW_SHARE, 0, "the share of the time, where the count is scaled" },
};
static ROW_TABLE(count_table, "counted", "What an event came to.", count_columns);

static const struct row_column counting_columns[] = {
	{ "what", ROW_TEXT, ROW_PLAIN, 0, "is counted" },
	{ "at_s", ROW_DOUBLE, ROW_PLAIN, 0, "with -I: since the begin" },
	{ "elapsed_s", ROW_DOUBLE, ROW_PLAIN, 0, "the mean of all runs" },
	{ "runs", ROW_U64, ROW_COUNT, 0, "as -r has it" },
	{ "user_s", ROW_DOUBLE, ROW_PLAIN, 0, "of a program's last run" },
	{ "system_s", ROW_DOUBLE, ROW_PLAIN, 0, "likewise" },
	{ "status", ROW_S64, ROW_PLAIN, 0, "the program's" },
	{ "threads", ROW_U64, ROW_COUNT, 0, "on which the events were opened" },
	{ "cpus", ROW_U64, ROW_COUNT, 0, "likewise" },
	{ "cpus_back", ROW_U64, ROW_COUNT, 0, "how often a CPU came or came back" },
	{ "excludes_kernel", ROW_BOOL, ROW_PLAIN, 0, "user space alone was counted" },
	{ "doubtful", ROW_BOOL, ROW_PLAIN, 0, "threads that started meanwhile may be missing" },
};
static ROW_TABLE(counting_table, "counting", "A run of waymark stat, or an interval of it.",
		 counting_columns);

static void put_counting(const struct stat_result *result, struct rows *rows, double at_s)
{
	const struct counts_coverage *coverage = &result->coverage;
	int is_interval = at_s >= 0, has_end = result->has_command && !is_interval;

	rows_record(rows, &counting_table,
		    (const struct row_value[]){
			    row_text(result->what), is_interval ? row_double(at_s) : row_null(),
			    is_interval ? row_null() : row_double(result->elapsed_s),
			    is_interval ? row_null() : row_u64(result->runs),
			    has_end ? row_double(result->user_s) : row_null(),
			    has_end ? row_double(result->system_s) : row_null(),
			    has_end ? row_s64(result->status) : row_null(),
			    row_u64(coverage->threads), row_u64(coverage->cpus),
			    row_u64(coverage->cpus_back), row_bool(coverage->excludes_kernel),
			    row_bool(coverage->is_doubtful) });
}

static void put_row(const struct stat_result *result, struct rows *rows, const struct stat_row *row,
		    double at_s)
{
	int is_text = rows->format == ROWS_TEXT;
	double now = stat_scaled(&row->value), count = at_s < 0 && is_text ? row->mean : now;
	int has_mean = result->runs > 1 && row->mean >= 0;
	char text[48], at[24], note[64] = "";

	snprintf(at, sizeof(at), "%.6f", at_s);
	count_text(row, count, text, sizeof(text));
	if (at_s < 0 && row->mean >= 0)
		relation(result, row, note, sizeof(note));
	ROWS_PUT(rows, count_columns,
		 at_s < 0  ? row_null()
		 : is_text ? row_text(at)
			   : row_double(at_s),
		 is_text	  ? row_text(text)
		 : now < 0	  ? row_null()
		 : is_scaled(row) ? row_double(now)
				  : row_u64(row->value.count),
		 row_words(row->event.unit), row_text(row->event.name), row_words(note),
		 row_double(row->event.scale), row_u64(row->value.enabled_ns),
		 row_u64(row->value.running_ns), row_bool(is_scaled(row)),
		 has_mean ? row_double(row->mean) : row_null(),
		 has_mean ? row_double(spread(row->mean, row->squares, result->runs)) : row_null(),
		 is_scaled(row) ? row_double(100 * (double)row->value.running_ns /
					     (double)row->value.enabled_ns)
				: row_null());
}

static void put_notes(const struct stat_result *result, struct rows *rows)
{
	rows_note(rows, "%.9f seconds elapsed", result->elapsed_s);
	if (result->runs > 1)
		rows_note(rows, "(+- %.2f %%, of %u runs)",
			  spread(result->elapsed_s, result->elapsed_squares, result->runs),
			  result->runs);
	if (result->has_command)
		rows_note(rows, "%.6f seconds user, %.6f seconds system", result->user_s,
			  result->system_s);
	if (result->lacks_hardware)
		rows_note(
			rows,
			"No cycles and instructions: this machine shows no counters of its processor.");
	if (result->lacks_switches)
		rows_note(
			rows,
			"Without switches and migrations: this user may not count in the kernel.");
	if (result->coverage.excludes_kernel)
		rows_note(
			rows,
			"User space alone: kernel.perf_event_paranoid forbids to count in the kernel.");
	if (result->coverage.is_doubtful)
		rows_note(
			rows,
			"The process could not be stopped: threads that started at the same time may be missing.");
}

int stat_show(const struct stat_result *result, double at_s, int json, int fd)
{
	static const unsigned char widths[] = { 12, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
	static struct out out;
	int is_interval = at_s >= 0;
	char title[4096];
	struct rows rows;

	out_init(&out, fd);
	snprintf(title, sizeof(title), "Counts of %s", result->what);
	rows_begin(&rows, &out, !json ? ROWS_TEXT : is_interval ? ROWS_JSON_LINES : ROWS_JSON);
	if (json)
		put_counting(result, &rows, at_s);
	rows_open(&rows, &count_table,
		  is_interval ? &(struct rows_layout){ .widths = widths,
						       .is_bare = 1,
						       .hidden = 1 << 4 | 1 << 10 | 1 << 11 }
			      : &(struct rows_layout){ .title = title });
	for (size_t i = 0; i < result->row_count; i++)
		put_row(result, &rows, &result->rows[i], at_s);
	rows_close(&rows);
	if (!is_interval)
		put_notes(result, &rows);
	return rows_end(&rows);
}
