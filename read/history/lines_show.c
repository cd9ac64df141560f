/* SPDX-License-Identifier: MIT */
/* The counts, put in order: sources by path, lines by number, branches by address. */
#include "read/history/lines_own.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A line on its way to its place. */
struct place {
	const struct own_line *line;
	const char *path;
	size_t branches, first_branch; /* how many, and the index of the first */
};

static int by_path_and_number(const void *one, const void *other)
{
	const struct place *a = one, *b = other;
	int order = a->line->source == b->line->source ? 0 : strcmp(a->path, b->path);

	if (order)
		return order;
	return a->line->number < b->line->number ? -1 : a->line->number > b->line->number;
}

/* ---- branches ---- */

struct branch_walk {
	const struct own_module *module;
	int is_all;
	size_t at, insn;
};

/* The next conditional jump of a module with its line, by address: 1, or 0 behind the last. */
static int branch_next(struct branch_walk *walk, uint32_t *line, struct lines_branch *branch)
{
	const struct own_module *module = walk->module;
	const struct insns *insns = &module->insns;
	const struct insn *insn;

	*branch = (struct lines_branch){ 0 };
	if (walk->is_all) {
		const struct own_branch *own = &module->branches[walk->at];

		if (walk->at++ == module->branch_count)
			return 0;
		*line = own->line;
		while (walk->insn < insns->count && insns->all[walk->insn].address < own->address)
			walk->insn++;
		insn = &insns->all[walk->insn];
		if (walk->insn == insns->count || insn->address != own->address)
			return 1;
	} else {
		const struct own_row *row = NULL;

		while (walk->at < insns->count && !row) {
			insn = &insns->all[walk->at++];
			if (insn->kind == TRAIL_BRANCH)
				row = lines_own_row_at(module, insn->address);
		}
		if (!row)
			return 0;
		*line = row->line;
	}
	*branch = (struct lines_branch){ insn->ran, insn->taken, insn->fell };
	return 1;
}

/* Count the branches of each line, or, once each line has its place, put them there. */
static size_t branches_walk(const struct lines *lines, size_t *by_line, struct lines_branch *to)
{
	struct lines_branch branch;
	size_t count = 0;
	uint32_t line = 0;

	for (size_t i = 0; i < lines->module_count; i++) {
		struct branch_walk walk = { .module = &lines->modules[i],
					    .is_all = lines->options.all_branches };

		for (; branch_next(&walk, &line, &branch); count++) {
			if (to)
				to[by_line[line]] = branch;
			by_line[line]++;
		}
	}
	return count;
}

/* ---- functions ---- */

struct called {
	const char *path;
	struct lines_function function;
};

static int by_place(const void *one, const void *other)
{
	const struct called *a = one, *b = other;
	int order = strcmp(a->path, b->path);

	if (!order && a->function.line != b->function.line)
		order = a->function.line < b->function.line ? -1 : 1;
	return order ? order : strcmp(a->function.name, b->function.name);
}

static uint64_t ran_at(const struct insns *insns, uint64_t address)
{
	size_t at = insns_below(insns, address);

	return at < insns->count && insns->all[at].address == address ? insns->all[at].ran : 0;
}

/* Functions by source and line; what has several copies is one. */
static int functions_gather(const struct lines *lines, struct called **out, size_t *out_count)
{
	size_t count = 0, kept = 0;
	struct called *all;

	for (size_t i = 0; i < lines->module_count; i++)
		count += lines->modules[i].function_count;
	all = *out = malloc((count + 1) * sizeof(*all));
	if (!all)
		return -ENOMEM;
	count = 0;
	for (size_t i = 0; i < lines->module_count; i++) {
		const struct own_module *module = &lines->modules[i];

		for (size_t j = 0; j < module->function_count; j++) {
			const struct own_function *from = &module->functions[j];

			all[count++] = (struct called){
				lines->sources[from->source].path,
				{ from->name, from->line, ran_at(&module->insns, from->address) },
			};
		}
	}
	if (count)
		qsort(all, count, sizeof(*all), by_place);
	for (size_t i = 0; i < count; i++) {
		if (kept && !by_place(&all[kept - 1], &all[i]))
			all[kept - 1].function.ran += all[i].function.ran;
		else
			all[kept++] = all[i];
	}
	*out_count = kept;
	return 0;
}

/* ---- all of it ---- */

static int by_source(const void *one, const void *other)
{
	const struct lines_source *a = one, *b = other;

	return strcmp(a->path, b->path);
}

/* Sources of functions whose own lines have no code left: all that runs there is inlined. */
static void show_bare_sources(struct lines *lines, const struct called *all, size_t count)
{
	size_t known = lines->seen_count;

	for (size_t i = 0; i < count; i++) {
		const struct lines_source key = { .path = all[i].path };

		if ((i && !strcmp(all[i].path, all[i - 1].path)) ||
		    (known && bsearch(&key, lines->seen, known, sizeof(key), by_source)))
			continue;
		lines->seen[lines->seen_count++] = key;
	}
	if (lines->seen_count > known)
		qsort(lines->seen, lines->seen_count, sizeof(*lines->seen), by_source);
}

static int show_functions(struct lines *lines)
{
	struct called *all = NULL;
	size_t count = 0, source = 0;

	if (functions_gather(lines, &all, &count))
		return -ENOMEM;
	show_bare_sources(lines, all, count);
	lines->seen_functions = malloc((count + 1) * sizeof(*lines->seen_functions));
	for (size_t i = 0; lines->seen_functions && i < count; i++) {
		lines->seen_functions[i] = all[i].function;
		while (strcmp(lines->seen[source].path, all[i].path) != 0)
			source++; /* both are by path, and it is among them */
		lines->seen[source].has_run |= all[i].function.ran > 0;
		if (!lines->seen[source].function_count++)
			lines->seen[source].functions = &lines->seen_functions[i];
	}
	free(all);
	return lines->seen_functions ? 0 : -ENOMEM;
}

static void show_line(struct lines *lines, size_t i, const struct place *place)
{
	const struct own_line *from = place->line;

	lines->seen_lines[i] = (struct lines_line){
		.number = from->number,
		.is_wanted = from->is_wanted || !lines->options.function,
		.ran = from->has_statement ? from->ran : from->mixed,
		.instructions = from->instructions,
		.branches = lines->seen_branches + place->first_branch,
		.branch_count = (uint32_t)place->branches,
	};
}

static void show_sources(struct lines *lines, const struct place *places)
{
	struct lines_source *source = NULL;
	size_t count = 0;

	for (size_t i = 0; i < lines->line_count; i++) {
		if (!i || places[i].line->source != places[i - 1].line->source) {
			source = &lines->seen[count++];
			*source = (struct lines_source){
				.path = places[i].path,
				.lines = &lines->seen_lines[i],
				.built_s = lines->sources[places[i].line->source].built_s,
				.is_optimized = lines->sources[places[i].line->source].is_optimized,
			};
		}
		source->line_count++;
		if (lines->seen_lines[i].instructions || lines->seen_lines[i].ran)
			source->has_run = 1;
	}
	lines->seen_count = count;
}

int lines_show(struct lines *lines)
{
	size_t count = lines->line_count, branches, at = 0;
	struct place *places = calloc(count + 1, sizeof(*places));
	size_t *by_line = calloc(count + 1, sizeof(*by_line));
	int err = -ENOMEM;

	lines->seen = calloc(lines->source_count + 1, sizeof(*lines->seen));
	lines->seen_lines = calloc(count + 1, sizeof(*lines->seen_lines));
	if (!places || !by_line || !lines->seen || !lines->seen_lines)
		goto out;
	branches = branches_walk(lines, by_line, NULL);
	lines->seen_branches = calloc(branches + 1, sizeof(*lines->seen_branches));
	if (!lines->seen_branches)
		goto out;
	for (size_t i = 0; i < count; i++)
		places[i] = (struct place){ .line = &lines->lines[i],
					    .path = lines->sources[lines->lines[i].source].path,
					    .branches = by_line[i] };
	if (count)
		qsort(places, count, sizeof(*places), by_path_and_number);
	for (size_t i = 0; i < count; i++) {
		places[i].first_branch = at;
		by_line[places[i].line - lines->lines] = at;
		at += places[i].branches;
		show_line(lines, i, &places[i]);
	}
	branches_walk(lines, by_line, lines->seen_branches);
	show_sources(lines, places);
	err = show_functions(lines);
out:
	free(places);
	free(by_line);
	return err;
}
