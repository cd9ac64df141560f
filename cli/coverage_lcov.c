/* SPDX-License-Identifier: MIT */
#include "cli/coverage.h"

#include <string.h>

static void put_number(struct out *out, const char *key, uint64_t value)
{
	out_text(out, key, strlen(key));
	out_u64(out, value);
	out_char(out, '\n');
}

/* A name ends where its line does. */
static void put_name(struct out *out, const char *name)
{
	for (; *name; name++)
		out_char(out, (unsigned char)*name < ' ' ? '?' : *name);
	out_char(out, '\n');
}

static void put_function(struct out *out, const char *key, uint64_t value, const char *name)
{
	out_text(out, key, strlen(key));
	out_u64(out, value);
	out_char(out, ',');
	put_name(out, name);
}

static void put_functions(struct out *out, const struct coverage_source *of)
{
	const struct lines_function *functions = of->source->functions;
	size_t count = of->source->function_count;

	for (size_t i = 0; i < count; i++)
		put_function(out, "FN:", functions[i].line, functions[i].name);
	for (size_t i = 0; i < count; i++)
		put_function(out, "FNDA:", functions[i].ran, functions[i].name);
	put_number(out, "FNF:", of->functions.total);
	put_number(out, "FNH:", of->functions.hit);
}

/* "-" is for a branch whose condition never came about. */
static void put_branch(struct out *out, uint32_t line, uint32_t jump, int way, uint64_t ran,
		       uint64_t count)
{
	out_literal(out, "BRDA:");
	out_u64(out, line);
	out_char(out, ',');
	out_u64(out, jump);
	out_char(out, ',');
	out_u64(out, (uint64_t)way);
	out_char(out, ',');
	if (ran)
		out_u64(out, count);
	else
		out_char(out, '-');
	out_char(out, '\n');
}

static void put_source(struct out *out, const struct coverage_source *of)
{
	const struct lines_source *source = of->source;

	out_literal(out, "TN:\nSF:");
	put_name(out, of->path);
	put_functions(out, of);
	for (size_t i = 0; i < source->line_count; i++) {
		const struct lines_line *line = &source->lines[i];

		for (uint32_t j = 0; j < line->branch_count; j++) {
			const struct lines_branch *branch = &line->branches[j];

			put_branch(out, line->number, j, 0, branch->ran, branch->taken);
			put_branch(out, line->number, j, 1, branch->ran, branch->fell);
		}
	}
	put_number(out, "BRF:", of->branches.total);
	put_number(out, "BRH:", of->branches.hit);
	for (size_t i = 0; i < source->line_count; i++) {
		out_literal(out, "DA:");
		out_u64(out, source->lines[i].number);
		out_char(out, ',');
		out_u64(out, source->lines[i].ran);
		out_char(out, '\n');
	}
	put_number(out, "LF:", of->lines.total);
	put_number(out, "LH:", of->lines.hit);
	out_literal(out, "end_of_record\n");
}

void coverage_put_lcov(struct out *out, const struct coverage *coverage)
{
	for (size_t i = 0; i < coverage->count && !out->error; i++)
		put_source(out, &coverage->sources[i]);
}
