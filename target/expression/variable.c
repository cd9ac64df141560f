/* SPDX-License-Identifier: MIT */
#include "target/expression/variable.h"

#include "target/code/demangle.h"

#include <dwarf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define FOUND_MAX 8 /* distinct variables that are kept */

struct search {
	struct code_file *file;
	const struct watch_expr *expr;
	char name[SCOPE_PATH_MAX]; /* as scope_squeeze() has it */
	const char *last;	   /* its last part */
	struct variable found[FOUND_MAX];
	size_t count;
	struct variable lost; /* one without a location, and why */
	int lost_err;
	int is_inlined; /* one of the copies has no frame of its own */
};

static int is_same(const char *name, const char *wanted)
{
	char squeezed[SCOPE_PATH_MAX];

	scope_squeeze(name, squeezed, sizeof(squeezed));
	return !strcmp(squeezed, wanted);
}

static const char *source_of(Dwarf_Die *die)
{
	struct code_declared declared;

	code_dwarf_declared(die, &declared);
	return declared.source;
}

static const char *linkage_of(Dwarf_Die *die)
{
	const char *name = code_dwarf_linkage(die);

	return name ? name : dwarf_diename(die);
}

/* Whether that function contains it: "f(int)", as its linkage name has it. */
static int is_in(const struct scope *scope, const char *function)
{
	char name[SCOPE_PATH_MAX], wanted[SCOPE_PATH_MAX], own[SCOPE_PATH_MAX];

	scope_squeeze(function, wanted, sizeof(wanted));
	for (int i = 1; i < scope->level; i++) {
		Dwarf_Die die = scope->levels[i];
		const char *linkage;

		if (dwarf_tag(&die) != DW_TAG_subprogram &&
		    dwarf_tag(&die) != DW_TAG_inlined_subroutine)
			continue;
		linkage = linkage_of(&die);
		if (!linkage || !code_demangle(linkage, 1, name, sizeof(name)))
			continue;
		scope_squeeze(name, own, sizeof(own));
		/* "const" may follow */
		if (!strncmp(own, wanted, strlen(wanted)))
			return 1;
	}
	return 0;
}

static int is_wanted(const struct search *search, const struct scope *scope, char *path)
{
	Dwarf_Die die = scope->levels[scope->level], unit = scope->levels[0];
	const char *name = dwarf_diename(&die), *source = search->expr->source;

	if (!name || !is_same(name, search->last))
		return 0;
	if (source &&
	    !(dwarf_diename(&unit) && code_dwarf_source_is(dwarf_diename(&unit), source)) &&
	    !code_dwarf_source_is(source_of(&die), source))
		return 0;
	if (search->expr->function && !is_in(scope, search->expr->function))
		return 0;
	return (scope_path(scope, 0, path) && is_same(path, search->name)) ||
	       (scope_path(scope, 1, path) && is_same(path, search->name));
}

/* Of several descriptions that lie nowhere, which says most: that of a declaration says least. */
static int outranks(int err, int other)
{
	return !other || (err != -WM_E_WATCH_EXTERN &&
			  (other == -WM_E_WATCH_EXTERN ||
			   (other == -WM_E_WATCH_OPTIMISED && err != -WM_E_WATCH_OPTIMISED)));
}

static void keep(struct search *search, const struct variable *variable, int err)
{
	if (err) {
		if (outranks(err, search->lost_err)) {
			search->lost = *variable;
			search->lost_err = err;
		}
		return;
	}
	/* Code that is inlined, or declared in a function, is described more than once. */
	for (size_t i = 0; i < search->count; i++)
		if (search->found[i].base == variable->base &&
		    search->found[i].start == variable->start &&
		    search->found[i].frame.entry == variable->frame.entry)
			return;
	if (search->count < FOUND_MAX)
		search->found[search->count++] = *variable;
}

static int is_in_function(const struct scope *scope)
{
	for (int i = 1; i < scope->level; i++)
		if (dwarf_tag((Dwarf_Die *)&scope->levels[i]) == DW_TAG_subprogram)
			return 1;
	return 0;
}

static int look_in_frame(struct search *search, const struct scope *scope,
			 struct variable *variable)
{
	int err = frame_locate(scope, search->file, &variable->frame, &variable->why);

	search->is_inlined |= variable->frame.is_inlined;
	variable->base = WATCH_IN_FRAME;
	variable->start = (uint64_t)variable->frame.offset;
	return err;
}

static int look(const struct scope *scope, void *data)
{
	struct search *search = data;
	struct variable variable;
	Dwarf_Die die = scope->levels[scope->level];
	int tag = dwarf_tag(&die), line, err;

	if (tag != DW_TAG_variable && tag != DW_TAG_formal_parameter &&
	    (tag != DW_TAG_member || !dwarf_hasattr(&die, DW_AT_external)))
		return 0;
	if (!is_wanted(search, scope, variable.path))
		return 0;
	variable.die = die;
	variable.base = WATCH_IN_MODULE;
	variable.start = 0;
	variable.frame.entry = 0;
	variable.why = "";
	variable.linkage = linkage_of(&die);
	variable.is_external = dwarf_hasattr_integrate(&die, DW_AT_external) != 0;
	variable.source = source_of(&die);
	variable.line = !dwarf_decl_line(&die, &line) && line > 0 ? (unsigned int)line : 0;
	err = location_find(&die, search->file, &variable.base, &variable.start);
	if (err && (err == -WM_E_WATCH_LOCAL || is_in_function(scope)))
		err = look_in_frame(search, scope, &variable);
	keep(search, &variable, err);
	return 0;
}

/* List them all, with what distinguishes them. */
static int several(const struct search *search, struct watch_trouble *trouble)
{
	const struct watch_expr *expr = search->expr;
	char list[WATCH_DETAIL_MAX] = "";
	size_t used = 0;

	for (size_t i = 0; i < search->count && used < sizeof(list); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used,
					 "%s%s:%u (0x%" PRIx64 ")", i ? ", " : "",
					 search->found[i].source, search->found[i].line,
					 search->found[i].start);
	return expression_trouble_set(trouble, -WM_E_WATCH_SEVERAL, expr->at, expr->bytes,
				      "%s, at %s%s", expr->name, list,
				      search->count == FOUND_MAX ? " and more" : "");
}

static int refuse(const struct search *search, struct watch_trouble *trouble)
{
	const struct variable *lost = &search->lost;
	const struct watch_expr *expr = search->expr;

	return expression_trouble_set(trouble, search->lost_err, expr->at, expr->bytes,
				      *lost->source ? "%s%s%s, at %s:%u" : "%s%s%s", lost->path,
				      *lost->why ? ": " : "", lost->why, lost->source, lost->line);
}

int variable_find(struct variable *variable, struct code_file *file, const struct watch_expr *expr,
		  struct watch_trouble *trouble)
{
	struct search *search;
	int err;

	if (!code_dwarf_of(file))
		return -WM_E_NO_DEBUG;
	search = calloc(1, sizeof(*search));
	if (!search)
		return -ENOMEM;
	search->file = file;
	search->expr = expr;
	scope_squeeze(expr->name, search->name, sizeof(search->name));
	search->last = scope_last_part(search->name);
	err = scope_walk(file, search->last != search->name, look, search);
	if (!err && search->count > 1) {
		err = several(search, trouble);
	} else if (!err && search->count && search->found[0].base == WATCH_IN_FRAME &&
		   search->is_inlined) {
		err = expression_trouble_set(
			trouble, -WM_E_WATCH_LOCAL, expr->at, expr->bytes,
			"%s: its function is also inlined into others, where it has no "
			"frame of its own",
			search->found[0].path);
	} else if (!err && search->count) {
		*variable = search->found[0];
	} else if (!err && search->lost_err) {
		*variable = search->lost;
		err = refuse(search, trouble);
	} else if (!err) {
		err = -ENOENT;
	}
	free(search);
	return err;
}

struct naming {
	struct code_file *file;
	int (*take)(const char *name, void *data);
	void *data;
};

static int name_take(const struct scope *scope, void *data)
{
	const struct naming *naming = data;
	Dwarf_Die die = scope->levels[scope->level];
	char path[SCOPE_PATH_MAX];
	enum watch_base base;
	uint64_t start;

	if (dwarf_tag(&die) != DW_TAG_variable ||
	    location_find(&die, naming->file, &base, &start) || !scope_path(scope, 0, path))
		return 0;
	return naming->take(path, naming->data);
}

int expression_names(struct code_module *module, int (*take)(const char *name, void *data),
		     void *data)
{
	struct naming naming = { module->file, take, data };
	int ret = code_dwarf_of(module->file) ? scope_walk(module->file, 1, name_take, &naming) : 0;

	return ret ? ret : code_symbol_data(module->file, take, data);
}
