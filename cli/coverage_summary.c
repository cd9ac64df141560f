/* SPDX-License-Identifier: MIT */
#include "cli/coverage.h"
#include "cli/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

static void put_part(struct out *out, const struct coverage_part *part)
{
	char text[64], pair[48];

	snprintf(pair, sizeof(pair), "%" PRIu64 "/%" PRIu64, part->hit, part->total);
	if (part->total)
		snprintf(text, sizeof(text), "%13s %5.1f%%", pair, percent_shown(part));
	else
		snprintf(text, sizeof(text), "%13s %6s", "-", "");
	out_text(out, text, strlen(text));
}

static void put_row(struct out *out, const struct coverage_source *source, const char *name)
{
	put_part(out, &source->lines);
	put_part(out, &source->branches);
	put_part(out, &source->functions);
	out_literal(out, "  ");
	out_escaped(out, name, strlen(name));
	if (source->source && source->source->is_optimized)
		out_literal(out, " (optimized)");
	out_char(out, '\n');
}

void coverage_put_table(struct out *out, const struct coverage *coverage)
{
	struct coverage_source sum = sum_of(coverage);
	char all[64];

	out_literal(out,
		    "               lines             branches            functions  source\n");
	for (size_t i = 0; i < coverage->count && !out->error; i++)
		put_row(out, &coverage->sources[i], coverage->sources[i].path);
	snprintf(all, sizeof(all), "all %zu", coverage->count);
	put_row(out, &sum, all);
}

static void json_part(struct json *json, const char *key, const struct coverage_part *part)
{
	json_open(json, key, '{');
	json_number(json, "hit", part->hit);
	json_number(json, "total", part->total);
	if (part->total)
		json_decimal(json, "percent", percent(part), 2);
	else
		json_null(json, "percent");
	json_close(json, '}');
}

static void json_parts(struct json *json, const struct coverage_source *source)
{
	json_part(json, "lines", &source->lines);
	json_part(json, "branches", &source->branches);
	json_part(json, "functions", &source->functions);
}

void coverage_put_json(struct out *out, const struct coverage *coverage)
{
	struct coverage_source sum = sum_of(coverage);
	struct json json = { .out = out };

	json_open(&json, NULL, '{');
	json_open(&json, "sources", '[');
	for (size_t i = 0; i < coverage->count && !out->error; i++) {
		json_line(&json);
		json_open(&json, NULL, '{');
		json_string(&json, "source", coverage->sources[i].path);
		json_bool(&json, "optimized", coverage->sources[i].source->is_optimized);
		json_parts(&json, &coverage->sources[i]);
		json_close(&json, '}');
	}
	json_close(&json, ']');
	json_open(&json, "all", '{');
	json_parts(&json, &sum);
	json_close(&json, '}');
	json_close(&json, '}');
	out_char(out, '\n');
}
