/* SPDX-License-Identifier: MIT */
#include "cli/list_watch_globs.h"

#include "base/array.h"
#include "base/name_match.h"
#include "target/code/dwarf.h"
#include "target/expression/variable.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define PREFIX "watch:"
#define FOUND_MAX 65536

struct match {
	char *name, *unit; /* unit: NULL of a member */
	enum watch_base base;
	uint64_t start;
};

struct matching {
	const struct list_watch_glob *glob;
	struct match *all;
	size_t count, room;
};

/* ---- reading ---- */

static int ends_with(const char *text, size_t bytes, const char *end)
{
	size_t wanted = strlen(end);

	return bytes > wanted && !memcmp(text + bytes - wanted, end, wanted);
}

/* Where "@FILE", ":KIND", "/LEN" or "/OPTIONS/" begin. */
static size_t behind_at(const char *text)
{
	static const char *const kinds[] = { ":w", ":rw", ":wr", ":x", ":r" };
	size_t end = strlen(text), at;
	const char *module;

	if (end && text[end - 1] == '/')
		for (end--; end && text[end - 1] != '/'; end--)
			;
	if (end && text[end] && text[end - 1] == '/')
		end--;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		at = end - strlen(kinds[i]);
		if (!ends_with(text, end, kinds[i]) || text[at - 1] == ':')
			continue;
		end = at;
		break;
	}
	module = memchr(text, '@', end);
	if (module)
		end = (size_t)(module - text);
	for (at = end; at && isdigit((unsigned char)text[at - 1]); at--)
		;
	return at && at < end && text[at - 1] == '/' ? at - 1 : end;
}

/* Behind the last "." or "->" that no "::" follows; 0: not found. */
static size_t member_at(const char *text, size_t end)
{
	for (size_t at = end; at > 1; at--) {
		if (text[at - 1] == ':')
			return 0;
		if (text[at - 1] == '.' || (text[at - 1] == '>' && text[at - 2] == '-'))
			return at;
	}
	return 0;
}

/* Behind "table.c::" or "'table.c'::"; 0: not found. */
static size_t source_end(const char *text, size_t end)
{
	const char *scope = strstr(text, "::"), *dot;

	if (!scope || scope >= text + end)
		return 0;
	dot = memchr(text, '.', (size_t)(scope - text));
	return dot ? (size_t)(scope - text) + 2 : 0;
}

static char *copy(const char *text, size_t bytes, const char *before)
{
	char *all;

	return asprintf(&all, "%s%.*s", before, (int)bytes, text) < 0 ? NULL : all;
}

static int members_read(struct list_watch_glob *glob, const char *expr, size_t at)
{
	int is_arrow = expr[at - 1] == '>';
	char *of;
	int err;

	glob->is_of_members = 1;
	glob->before = copy(expr, at, PREFIX);
	if (asprintf(&of, PREFIX "%s%.*s%s", is_arrow ? "*" : "", (int)at - 1 - is_arrow, expr,
		     glob->behind) < 0)
		return -ENOMEM;
	err = expression_parse(&glob->of, of, NULL);
	free(of);
	return !glob->before ? -ENOMEM : err == -ENOMEM ? err : !err;
}

static int variables_read(struct list_watch_glob *glob, const char *expr, size_t at)
{
	int is_quoted = *expr == '\'';
	char *of;
	int err;

	glob->before = copy(expr, at, PREFIX);
	if (at)
		glob->source = copy(expr + is_quoted, at - 2 - 2 * (size_t)is_quoted, "");
	if (asprintf(&of, PREFIX "any%s", glob->behind) < 0)
		return -ENOMEM;
	err = expression_parse(&glob->of, of, NULL);
	free(of);
	return !glob->before || (at && !glob->source) ? -ENOMEM : err == -ENOMEM ? err : !err;
}

int list_watch_glob_read(struct list_watch_glob *glob, const char *spec)
{
	const char *expr = spec + strlen(PREFIX);
	size_t end = behind_at(expr), at = member_at(expr, end);
	int is_of_members = at > 0;

	*glob = (struct list_watch_glob){ 0 };
	if (!at)
		at = source_end(expr, end);
	glob->text = strdup(spec);
	glob->pattern = copy(expr + at, end - at, "");
	glob->behind = strdup(expr + end);
	if (!glob->text || !glob->pattern || !glob->behind)
		return -ENOMEM;
	if (!strpbrk(glob->pattern, "*?"))
		return 0;
	return is_of_members ? members_read(glob, expr, at) : variables_read(glob, expr, at);
}

void list_watch_glob_release(struct list_watch_glob *glob)
{
	free(glob->text);
	free(glob->before);
	free(glob->pattern);
	free(glob->source);
	free(glob->behind);
	expression_release(&glob->of);
	*glob = (struct list_watch_glob){ 0 };
}

/* ---- matching ---- */

static int match_add(struct matching *matching, const char *name, const struct watch_named *named)
{
	struct match *match;

	if (!name_match(matching->glob->pattern, name))
		return 0;
	if (matching->count == FOUND_MAX)
		return -E2BIG;
	if (array_grow(&matching->all, &matching->room, matching->count + 1,
		       sizeof(*matching->all)))
		return -ENOMEM;
	match = &matching->all[matching->count++];
	*match = (struct match){ .name = strdup(name) };
	if (named) {
		match->base = named->base;
		match->start = named->start;
		match->unit = strdup(named->unit ? named->unit : "");
	}
	return match->name && (!named || match->unit) ? 0 : -ENOMEM;
}

static int member_take(const char *name, void *data)
{
	struct matching *matching = data;

	/* A class hides the names of its base classes, which come later. */
	for (size_t i = 0; i < matching->count; i++)
		if (!strcmp(matching->all[i].name, name))
			return 0;
	return match_add(matching, name, NULL);
}

/* Whether a path ends with the wanted one, by whole parts. */
static int is_source(const char *path, const char *wanted)
{
	size_t bytes = strlen(path), end = strlen(wanted);

	return bytes >= end && !strcmp(path + bytes - end, wanted) &&
	       (bytes == end || path[bytes - end - 1] == '/');
}

static int variable_take(const struct watch_named *named, void *data)
{
	struct matching *matching = data;
	const char *source = matching->glob->source;

	return source && !(named->unit && is_source(named->unit, source))
		       ? 0
		       : match_add(matching, named->name, named);
}

static int by_name(const void *one, const void *other)
{
	const struct match *a = one, *b = other;
	int order = strcmp(a->name, b->name);

	if (order)
		return order;
	if (a->base != b->base)
		return a->base < b->base ? -1 : 1;
	return a->start < b->start ? -1 : a->start > b->start;
}

static int is_same_name(const struct matching *matching, size_t i, size_t j)
{
	return j < matching->count && !strcmp(matching->all[i].name, matching->all[j].name);
}

static int is_same_place(const struct matching *matching, size_t i, size_t j)
{
	return is_same_name(matching, i, j) && matching->all[i].base == matching->all[j].base &&
	       matching->all[i].start == matching->all[j].start;
}

/*
 * Sorted: "watch:count", or "watch:a.c::count" if its neighbour has that name, and another place.
 */
static int match_put(const struct matching *matching, size_t i,
		     int (*take)(const char *spec, void *data), void *data)
{
	const struct match *match = &matching->all[i];
	int is_shared = 0, ret;
	char *spec;

	for (size_t j = i; match->unit && j-- && is_same_name(matching, i, j);)
		is_shared |= !is_same_place(matching, i, j);
	for (size_t j = i + 1; match->unit && is_same_name(matching, i, j); j++)
		is_shared |= !is_same_place(matching, i, j);
	is_shared = is_shared && !matching->glob->source && *match->unit;
	if (asprintf(&spec, "%s%s%s%s%s", matching->glob->before,
		     is_shared ? name_last_part(match->unit) : "", is_shared ? "::" : "",
		     match->name, matching->glob->behind) < 0)
		return -ENOMEM;
	ret = take(spec, data);
	free(spec);
	return ret;
}

static int matches_put(struct matching *matching, int (*take)(const char *spec, void *data),
		       void *data)
{
	int ret = 0;

	if (!matching->glob->is_of_members)
		qsort(matching->all, matching->count, sizeof(*matching->all), by_name);
	for (size_t i = 0; !ret && i < matching->count; i++)
		if (matching->glob->is_of_members || !i || !is_same_place(matching, i - 1, i))
			ret = match_put(matching, i, take, data);
	return ret;
}

/* The matching variables of all modules that the glob matches. 0, or why there can't be any. */
static int variables_take(struct matching *matching, struct code_module *const *modules,
			  size_t module_count)
{
	const struct list_watch_glob *glob = matching->glob;
	int err = glob->of.module ? -WM_E_NO_MODULE : -WM_E_NO_DEBUG, ret;

	for (size_t i = 0; i < module_count; i++) {
		const struct code_file *file = modules[i]->file;

		if (file->is_vdso || !expression_takes(&glob->of, file->path, &file->aliases))
			continue;
		err = err == -WM_E_NO_MODULE ? -WM_E_NO_DEBUG : err;
		ret = expression_variables(modules[i], variable_take, matching);
		if (ret)
			return ret;
		err = code_dwarf_of(modules[i]->file) ? 0 : err;
	}
	return err;
}

int list_watch_glob_each(const struct list_watch_glob *glob, struct code_module *const *modules,
			 size_t module_count, int (*take)(const char *spec, void *data), void *data,
			 struct watch_trouble *trouble)
{
	struct matching matching = { .glob = glob };
	int ret = glob->is_of_members ? expression_members(&glob->of, modules, module_count,
							   member_take, &matching, trouble)
				      : variables_take(&matching, modules, module_count);

	if (ret == -E2BIG)
		expression_trouble_set(trouble, ret, 0, 0, "%s matches more than %d names",
				       glob->text + strlen(PREFIX), FOUND_MAX);
	if (!ret && !matching.count)
		ret = -WM_E_WATCH_VARIABLE;
	if (ret == -WM_E_NO_MODULE)
		expression_trouble_set(trouble, ret, 0, 0, "%s", glob->of.module);
	if (ret < 0 && trouble && trouble->error != ret)
		expression_trouble_set(trouble, ret, 0, 0, "%s", glob->text + strlen(PREFIX));
	if (!ret)
		ret = matches_put(&matching, take, data);
	for (size_t i = 0; i < matching.count; i++) {
		free(matching.all[i].name);
		free(matching.all[i].unit);
	}
	free(matching.all);
	return ret;
}
