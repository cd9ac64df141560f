/* SPDX-License-Identifier: MIT */
#include "cli/coverage.h"
#include "read/rows/render.h"

#include <stdio.h>

void coverage_sum(struct coverage_source *of)
{
	const struct lines_source *source = of->source;

	of->lines = of->branches = of->functions = (struct coverage_part){ 0 };
	for (size_t i = 0; i < source->line_count; i++) {
		const struct lines_line *line = &source->lines[i];

		of->lines.total++;
		of->lines.hit += line->ran != 0;
		for (uint32_t j = 0; j < line->branch_count; j++) {
			of->branches.total += 2;
			of->branches.hit += !!line->branches[j].taken + !!line->branches[j].fell;
		}
	}
	of->functions.total = source->function_count;
	for (size_t i = 0; i < source->function_count; i++)
		of->functions.hit += source->functions[i].ran != 0;
}

static void add(struct coverage_part *to, const struct coverage_part *part)
{
	to->total += part->total;
	to->hit += part->hit;
}

static struct coverage_source sum_of(const struct coverage *coverage)
{
	struct coverage_source sum = { 0 };

	for (size_t i = 0; i < coverage->count; i++) {
		add(&sum.lines, &coverage->sources[i].lines);
		add(&sum.branches, &coverage->sources[i].branches);
		add(&sum.functions, &coverage->sources[i].functions);
	}
	return sum;
}

static double percent(const struct coverage_part *part)
{
	return part->total ? 100.0 * (double)part->hit / (double)part->total : 0;
}

/* 100% is all, and 0% none. */
static double percent_shown(const struct coverage_part *part)
{
	double shown = percent(part);

	if (part->hit < part->total && shown > 99.9)
		return 99.9;
	return part->hit && shown < 0.1 ? 0.1 : shown;
}

#define PART(name)                                                                                 \
	{ name, ROW_U64, ROW_COUNT, 0, "there are; a conditional jump is two branches" },          \
		{ name "_hit", ROW_U64, ROW_COUNT, 0, "that ran" },                                \
	{                                                                                          \
		name, ROW_DOUBLE, ROW_SHARE, 0, "null: there are none"                             \
	}

static const struct row_column source_columns[] = {
	PART("lines"),
	PART("branches"),
	PART("functions"),
	{ "source", ROW_TEXT, ROW_PLAIN, 0, "the file" },
	{ "optimized", ROW_BOOL, ROW_PLAIN, ROW_QUIET, "so lines that ran may count as never run" },
};
static ROW_TABLE(source_table, "source", "Which of a source's lines, branches and functions ran.",
		 source_columns);
static ROW_TABLE(coverage_all_table, "all", "The sum of all sources.", source_columns);

static void put_source(struct rows *rows, const struct coverage_source *source, const char *name)
{
	const struct coverage_part *parts[] = { &source->lines, &source->branches,
						&source->functions };
	struct row_value row[11], *to = row;

	for (int i = 0; i < 3; i++) {
		const struct coverage_part *part = parts[i];
		int is_text = rows->format == ROWS_TEXT;

		*to++ = row_u64(part->total);
		*to++ = row_u64(part->hit);
		*to++ = !part->total ? row_null()
				     : row_double(is_text ? percent_shown(part) : percent(part));
	}
	*to++ = row_text(name);
	*to++ = row_bool(source->source && source->source->is_optimized);
	rows_put(rows, row);
}

int coverage_print(struct out *out, const struct coverage *coverage, int json)
{
	struct coverage_source sum = sum_of(coverage);
	struct rows rows;
	char all[64];

	rows_begin(&rows, out, json ? ROWS_JSON : ROWS_TEXT);
	rows_open(&rows, &source_table, NULL);
	for (size_t i = 0; i < coverage->count && !out->error; i++)
		put_source(&rows, &coverage->sources[i], coverage->sources[i].path);
	if (json) {
		rows_close(&rows);
		rows_open(&rows, &coverage_all_table, NULL);
	}
	snprintf(all, sizeof(all), "all %zu", coverage->count);
	put_source(&rows, &sum, all);
	rows_close(&rows);
	return rows_end(&rows);
}
