/* SPDX-License-Identifier: MIT */
#include "target/expression/scope.h"

#include <ctype.h>
#include <dwarf.h>
#include <errno.h>
#include <string.h>

#define ANONYMOUS "(anonymous namespace)::"
#define ORIGINS_MAX 4 /* a copy of a definition of a declaration is three */
#define BEAT_UNITS 64

static int is_space(int tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_module;
}

/* Whether descriptions of variables and types may be nested in it. */
static int is_container(int tag)
{
	switch (tag) {
	case DW_TAG_subprogram:
	case DW_TAG_lexical_block:
	case DW_TAG_inlined_subroutine:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_interface_type:
	case DW_TAG_common_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
		return 1;
	default:
		return is_space(tag);
	}
}

/* libdw's own ways down call themselves for each level; see unit_read() in target/code/dwarf.c. */
static int unit_walk(struct scope *scope, int deep,
		     int (*visit)(const struct scope *scope, void *data), void *data)
{
	Dwarf_Die *levels = scope->levels;
	int err = 0;

	if (dwarf_child(&levels[0], &levels[1]))
		return 0;
	for (scope->level = 1; !err && scope->level > 0;) {
		Dwarf_Die *die = &levels[scope->level];
		int tag = dwarf_tag(die);

		err = visit(scope, data);
		if (err)
			break;
		if (deep ? is_container(tag) : is_space(tag)) {
			if (scope->level + 1 == SCOPE_LEVELS_MAX)
				break;
			if (!dwarf_child(die, &levels[scope->level + 1])) {
				scope->level++;
				continue;
			}
		}
		while (scope->level > 0 && code_dwarf_next(&levels[scope->level]))
			scope->level--;
	}
	return err;
}

static int dwarf_walk(const struct code_file *file, Dwarf *dwarf, int deep,
		      int (*visit)(const struct scope *scope, void *data), void *data)
{
	struct scope scope = { .level = 0 };
	Dwarf_CU *unit = NULL;
	size_t count = 0;
	int err = 0;

	while (!err && !code_dwarf_unit(file, dwarf, &unit, &scope.levels[0])) {
		if (++count % BEAT_UNITS == 0)
			err = code_file_beat(file, 0, 0);
		if (!err)
			err = unit_walk(&scope, deep, visit, data);
	}
	return err;
}

int scope_walk(const struct code_file *file, int deep,
	       int (*visit)(const struct scope *scope, void *data), void *data)
{
	return file && file->dwarf ? dwarf_walk(file, file->dwarf->dwarf, deep, visit, data) : 0;
}

int scope_walk_all(const struct code_file *file, int deep,
		   int (*visit)(const struct scope *scope, void *data), void *data)
{
	int ret = scope_walk(file, deep, visit, data);
	Dwarf *other = ret || !file || !file->dwarf ? NULL : dwarf_getalt(file->dwarf->dwarf);

	return other ? dwarf_walk(file, other, deep, visit, data) : ret;
}

int scope_of(Dwarf_Die *die, struct scope *scope)
{
	Dwarf_Off wanted = dwarf_dieoffset(die);
	Dwarf_Die *levels = scope->levels;

	if (!dwarf_diecu(die, &levels[0], NULL, NULL))
		return -ENOENT;
	scope->level = 0;
	while (dwarf_dieoffset(&levels[scope->level]) != wanted) {
		Dwarf_Die *child = &levels[scope->level + 1], next;

		if (scope->level + 1 == SCOPE_LEVELS_MAX || dwarf_child(child - 1, child))
			return -ENOENT;
		scope->level++;
		for (next = *child; dwarf_dieoffset(&next) <= wanted;) {
			*child = next;
			if (code_dwarf_next(&next))
				break;
		}
		if (dwarf_dieoffset(child) > wanted)
			return -ENOENT;
	}
	return 0;
}

int scope_origin(Dwarf_Die *die, Dwarf_Die *origin)
{
	Dwarf_Attribute attribute;

	return (dwarf_attr(die, DW_AT_specification, &attribute) ||
		dwarf_attr(die, DW_AT_abstract_origin, &attribute)) &&
	       dwarf_formref_die(&attribute, origin);
}

static size_t path_of(const struct scope *scope, int with_inline, unsigned int origins, char *path);

static size_t origin_path(Dwarf_Die *origin, int with_inline, unsigned int origins, char *path)
{
	struct scope scope = { .level = 0 };

	if (origins == ORIGINS_MAX || scope_of(origin, &scope))
		return 0;
	return path_of(&scope, with_inline, origins + 1, path);
}

/* Behind path[used]. Returns what is used then; 0: there is no room. */
static size_t append(char *path, size_t used, const char *name)
{
	size_t joint = used ? 2 : 0, bytes = strlen(name);

	if (used + joint + bytes >= SCOPE_PATH_MAX)
		return 0;
	memcpy(path + used, "::", joint);
	memcpy(path + used + joint, name, bytes + 1);
	return used + joint + bytes;
}

static int is_named(Dwarf_Die *die, int with_inline)
{
	switch (dwarf_tag(die)) {
	case DW_TAG_lexical_block:
	case DW_TAG_common_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
		return 0;
	case DW_TAG_namespace:
		return dwarf_diename(die) &&
		       (with_inline || !dwarf_hasattr(die, DW_AT_export_symbols));
	default:
		return 1;
	}
}

static size_t path_of(const struct scope *scope, int with_inline, unsigned int origins, char *path)
{
	size_t used = 0;

	*path = 0;
	for (int i = 1; i <= scope->level; i++) {
		Dwarf_Die die = scope->levels[i], origin;
		const char *name;

		if (i < scope->level && !is_named(&die, with_inline))
			continue;
		if (scope_origin(&die, &origin)) {
			used = origin_path(&origin, with_inline, origins, path);
			if (!used)
				return 0;
			continue;
		}
		name = dwarf_diename(&die);
		if (!name && i < scope->level)
			continue;
		used = name && *name ? append(path, used, name) : 0;
		if (!used)
			return 0;
	}
	return used;
}

size_t scope_path(const struct scope *scope, int with_inline, char *path)
{
	return path_of(scope, with_inline, 0, path);
}

const char *scope_last_part(const char *path)
{
	const char *last = path;
	int depth = 0;

	for (; *path; path++) {
		depth += (*path == '<') - (*path == '>');
		if (!depth && path[0] == ':' && path[1] == ':')
			last = path + 2;
	}
	return last;
}

/* The names that people and gdb use; compilers write them in full. */
static const struct {
	const char *full, *name;
} integers[] = {
	{ "long long unsigned int", "unsigned long long" },
	{ "long unsigned int", "unsigned long" },
	{ "short unsigned int", "unsigned short" },
	{ "long long int", "long long" },
	{ "long int", "long" },
	{ "short int", "short" },
};

const char *scope_short_type(const char *name)
{
	for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); i++)
		if (!strcmp(integers[i].full, name))
			return integers[i].name;
	return name;
}

static int is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

void scope_squeeze(const char *name, char *squeezed, size_t room)
{
	const char *at = name;
	size_t used = 0;

	while (*at && used + 1 < room) {
		const char *word = "";
		size_t bytes = 0;

		if (!strncmp(at, ANONYMOUS, strlen(ANONYMOUS))) {
			at += strlen(ANONYMOUS);
			continue;
		}
		for (size_t i = 0; !bytes && i < sizeof(integers) / sizeof(integers[0]); i++) {
			size_t full = strlen(integers[i].full);

			if (strncmp(at, integers[i].full, full) || is_word(at[full]) ||
			    (at > name && is_word(at[-1])))
				continue;
			bytes = full;
			word = integers[i].name;
		}
		for (; *word && used + 1 < room; word++)
			if (*word != ' ')
				squeezed[used++] = *word;
		if (!bytes && *at != ' ')
			squeezed[used++] = *at;
		at += bytes ? bytes : 1;
	}
	squeezed[used] = 0;
}
