/* SPDX-License-Identifier: MIT */
#include "cli/stat_show.h"

#include "cli/cli.h"
#include "cli/json.h"
#include "base/quantity.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_COLUMNS 18
#define NAME_COLUMNS 24

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

static void show_row(const struct stat_result *result, const struct stat_row *row, FILE *to)
{
	char count[48], beside[64] = "";
	int length = (int)strlen(row->event.name);

	count_text(row, row->mean, count, sizeof(count));
	fprintf(to, "%*s  ", COUNT_COLUMNS, count);
	complain_words_put(to, "%s", row->event.name);
	if (row->mean >= 0)
		relation(result, row, beside, sizeof(beside));
	if (beside[0])
		fprintf(to, "%*s  # %s", length < NAME_COLUMNS ? NAME_COLUMNS - length : 0, "",
			beside);
	if (row->mean >= 0 && result->runs > 1)
		fprintf(to, "  ( +- %.2f %% )", spread(row->mean, row->squares, result->runs));
	if (row->mean >= 0 && is_scaled(row))
		fprintf(to, "  (%.2f %%)",
			100 * (double)row->value.running_ns / (double)row->value.enabled_ns);
	fputc('\n', to);
}

void stat_show(const struct stat_result *result, FILE *to)
{
	int has_scaled = 0;

	fputs("\n Counts of ", to);
	complain_words_put(to, "%s", result->what);
	if (result->runs > 1)
		fprintf(to, " (%u runs)", result->runs);
	fputs(":\n\n", to);
	for (size_t i = 0; i < result->row_count; i++) {
		show_row(result, &result->rows[i], to);
		has_scaled |= is_scaled(&result->rows[i]);
	}
	fprintf(to, "\n%*.9f  seconds elapsed", COUNT_COLUMNS, result->elapsed_s);
	if (result->runs > 1)
		fprintf(to, "  ( +- %.2f %% )",
			spread(result->elapsed_s, result->elapsed_squares, result->runs));
	fputc('\n', to);
	if (result->has_command)
		fprintf(to, "%*.6f  seconds user\n%*.6f  seconds system\n", COUNT_COLUMNS,
			result->user_s, COUNT_COLUMNS, result->system_s);
	if (has_scaled)
		fputs("\n A percentage at the end: the events took turns; this one was counted for that\n"
		      " share of the time, and its count is scaled.\n",
		      to);
	if (result->lacks_hardware)
		fputs("\n No cycles and instructions: this machine shows no counters of its processor.\n",
		      to);
	if (result->lacks_switches)
		fputs("\n Without switches and migrations: this user may not count in the kernel.\n",
		      to);
	if (result->coverage.excludes_kernel)
		fputs("\n User space alone: kernel.perf_event_paranoid forbids to count in the kernel.\n",
		      to);
	if (result->coverage.is_doubtful)
		fputs("\n The process could not be stopped: threads that started at the same time may be\n"
		      " missing.\n",
		      to);
	fputc('\n', to);
}

void stat_show_interval(const struct stat_result *result, double at_s, FILE *to)
{
	for (size_t i = 0; i < result->row_count; i++) {
		const struct stat_row *row = &result->rows[i];
		char count[48];

		count_text(row, stat_scaled(&row->value), count, sizeof(count));
		fprintf(to, "%14.6f  %*s  ", at_s, COUNT_COLUMNS, count);
		complain_words_put(to, "%s", row->event.name);
		fputc('\n', to);
	}
	fflush(to);
}

static void json_row(struct json *json, const struct stat_result *result,
		     const struct stat_row *row, double at_s)
{
	double count = stat_scaled(&row->value);

	if (at_s < 0) /* an interval is one line */
		json_line(json);
	json_open(json, NULL, '{');
	json_string(json, "event", row->event.name);
	if (count < 0)
		json_null(json, "count");
	else if (is_scaled(row))
		json_decimal(json, "count", count, 0);
	else
		json_number(json, "count", row->value.count);
	json_words(json, "unit", row->event.unit[0] ? row->event.unit : NULL);
	json_decimal(json, "scale", row->event.scale, 12);
	json_number(json, "enabled_ns", row->value.enabled_ns);
	json_number(json, "running_ns", row->value.running_ns);
	json_bool(json, "scaled", is_scaled(row));
	if (result->runs > 1) {
		json_decimal(json, "mean", row->mean, 3);
		json_decimal(json, "error_percent", spread(row->mean, row->squares, result->runs),
			     3);
	}
	json_close(json, '}');
}

int stat_show_json(const struct stat_result *result, double at_s, int fd)
{
	struct out *out = malloc(sizeof(*out));
	struct json json = { .out = out };
	int err;

	if (!out)
		return -ENOMEM;
	out_init(out, fd);
	json_open(&json, NULL, '{');
	json_string(&json, "what", result->what);
	if (at_s >= 0) {
		json_decimal(&json, "at_s", at_s, 9);
	} else {
		json_decimal(&json, "elapsed_s", result->elapsed_s, 9);
		json_number(&json, "runs", result->runs);
	}
	if (result->has_command && at_s < 0) {
		json_decimal(&json, "user_s", result->user_s, 6);
		json_decimal(&json, "system_s", result->system_s, 6);
		json_number(&json, "status", (uint64_t)result->status);
	}
	json_number(&json, "threads", result->coverage.threads);
	json_number(&json, "cpus", result->coverage.cpus);
	json_number(&json, "cpus_back", result->coverage.cpus_back);
	json_bool(&json, "excludes_kernel", result->coverage.excludes_kernel);
	json_bool(&json, "doubtful", result->coverage.is_doubtful);
	json_open(&json, "events", '[');
	for (size_t i = 0; i < result->row_count; i++)
		json_row(&json, result, &result->rows[i], at_s);
	json_close(&json, ']');
	json_close(&json, '}');
	out_char(out, '\n');
	err = out_flush(out);
	free(out);
	return err;
}
