/* SPDX-License-Identifier: MIT */
#include "target/expression/named.h"

#include "target/expression/scope.h"

#include <ctype.h>
#include <dwarf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

#define WORDS_MAX 16

/* ---- the text ---- */

static size_t spaces_end(const char *text, size_t at, size_t end)
{
	while (at < end && text[at] == ' ')
		at++;
	return at;
}

/* A word with its template's arguments and its scope: "ns::Box<int>::Inner". `at` if absent. */
static size_t word_end(const char *text, size_t at, size_t end)
{
	size_t start = at;
	int depth = 0;

	for (; at < end; at++) {
		char c = text[at];

		depth += (c == '<') - (c == '>');
		if (depth < 0)
			return start;
		if (depth || c == '>' || c == '_' || c == '$' || c & 0x80 ||
		    isalnum((unsigned char)c))
			continue;
		if (c != ':' || at + 1 == end || text[at + 1] != ':')
			break;
		at++;
	}
	return depth || isdigit((unsigned char)text[start]) ? start : at;
}

static int is_qualifier(const char *word, size_t bytes)
{
	return (bytes == 5 && !memcmp(word, "const", 5)) ||
	       (bytes == 8 && !memcmp(word, "volatile", 8));
}

/* The end of a name's words; cast->bytes: 0 without any. Qualifiers at its ends do not count. */
static size_t name_end(const char *text, size_t at, size_t end, struct named_cast *cast)
{
	*cast = (struct named_cast){ 0 };
	for (;;) {
		size_t start = spaces_end(text, at, end), behind = word_end(text, start, end);

		if (behind == start)
			return start;
		at = behind;
		if (is_qualifier(text + start, behind - start))
			continue;
		if (!cast->bytes)
			cast->at = start;
		cast->bytes = behind - cast->at;
	}
}

size_t named_cast_read(const char *text, size_t at, size_t end, struct named_cast *cast)
{
	size_t behind;

	if (at == end || text[at] != '(')
		return 0;
	at = name_end(text, at + 1, end, cast);
	while (cast->bytes && at < end && text[at] == '*') {
		cast->pointers++;
		at = spaces_end(text, at + 1, end);
		while ((behind = word_end(text, at, end)) > at &&
		       is_qualifier(text + at, behind - at))
			at = spaces_end(text, behind, end);
	}
	if (!cast->bytes || at == end || text[at] != ')')
		return 0;
	behind = spaces_end(text, ++at, end);
	/* "(name)" alone is a name in brackets, unless an operand follows */
	if (!cast->pointers && (behind == end || (!isalnum((unsigned char)text[behind]) &&
						  !strchr("_(*&", text[behind]))))
		return 0;
	return at;
}

/* ---- integers and floats ---- */

/* "long unsigned", "unsigned long int" -> "unsigned long". Returns 0 for other types. */
static int number_name(const char *name, char *canonical, size_t room)
{
	static const char *const words[] = { "unsigned", "signed", "long",   "short",
					     "int",	 "char",   "double", "float" };
	unsigned int counts[sizeof(words) / sizeof(words[0])] = { 0 };
	const char *base = "int", *sign, *length;

	for (unsigned int left = WORDS_MAX; *name && left; left--) {
		size_t bytes = strcspn(name, " "), i = 0;

		while (i < sizeof(words) / sizeof(words[0]) &&
		       (strlen(words[i]) != bytes || memcmp(words[i], name, bytes)))
			i++;
		if (i == sizeof(words) / sizeof(words[0]))
			return 0;
		counts[i]++;
		name += bytes + strspn(name + bytes, " ");
	}
	if (*name)
		return 0;
	base = counts[5] ? "char" : counts[6] ? "double" : counts[7] ? "float" : base;
	sign = counts[0] ? "unsigned " : counts[1] && counts[5] ? "signed " : "";
	length = counts[2] > 1 ? "long long" : counts[2] ? "long" : counts[3] ? "short" : "";
	if (*length && !strcmp(base, "int"))
		base = "";
	snprintf(canonical, room, "%s%s%s%s", sign, length, *length && *base ? " " : "", base);
	return 1;
}

/* ---- debug information ---- */

struct lookup {
	char name[SCOPE_PATH_MAX]; /* a number's: as scope_short_type() has it; else squeezed */
	int is_number;
	int tag; /* after "struct"; 0: any */
	Dwarf_Die near, found;
	int has_near, is_found, is_near, is_several;
};

static int is_type(int tag)
{
	switch (tag) {
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
	case DW_TAG_union_type:
	case DW_TAG_interface_type:
	case DW_TAG_enumeration_type:
	case DW_TAG_typedef:
	case DW_TAG_base_type:
		return 1;
	default:
		return 0;
	}
}

static int is_named(const struct lookup *lookup, const struct scope *scope, const char *name)
{
	char path[SCOPE_PATH_MAX], squeezed[SCOPE_PATH_MAX];
	const char *last = scope_last_part(lookup->name);

	/* most names differ in their first letter */
	if (*name != *last)
		return 0;
	for (int with_inline = 0; with_inline < 2; with_inline++) {
		if (!scope_path(scope, with_inline, path))
			continue;
		scope_squeeze(path, squeezed, sizeof(squeezed));
		if (!strcmp(squeezed, lookup->name))
			return 1;
	}
	return 0;
}

static int is_same_size(const Dwarf_Die *one, const Dwarf_Die *other)
{
	struct declared a = { .die = *one }, b = { .die = *other };
	uint64_t a_bytes = 0, b_bytes = 0;

	return declared_bytes(&a, &a_bytes) == declared_bytes(&b, &b_bytes) && a_bytes == b_bytes;
}

/* 1: it is the one of the near unit. */
static int lookup_visit(const struct scope *scope, void *data)
{
	struct lookup *lookup = data;
	Dwarf_Die die = scope->levels[scope->level], unit = scope->levels[0];
	int tag = dwarf_tag(&die), is_near;
	const char *name;

	if (!is_type(tag) || (tag == DW_TAG_base_type) < lookup->is_number ||
	    dwarf_hasattr(&die, DW_AT_declaration) ||
	    dwarf_hasattr(&die, DW_AT_endianity)) /* GCC has it for the other one alone */
		return 0;
	if (lookup->tag && lookup->tag != (tag == DW_TAG_class_type ? DW_TAG_structure_type : tag))
		return 0;
	name = dwarf_diename(&die);
	if (!name || (lookup->is_number ? strcmp(scope_short_type(name), lookup->name) != 0
					: !is_named(lookup, scope, name)))
		return 0;
	is_near = lookup->has_near && unit.addr == lookup->near.addr;
	if (lookup->is_found && !is_near && !is_same_size(&lookup->found, &die))
		lookup->is_several = 1;
	if (!lookup->is_found || is_near)
		lookup->found = die;
	lookup->is_found = 1;
	lookup->is_near |= is_near;
	return is_near;
}

static void lookup_init(struct lookup *lookup, const char *name, const Dwarf_Die *near)
{
	static const struct {
		const char *word;
		int tag;
	} words[] = { { "struct ", DW_TAG_structure_type },
		      { "class ", DW_TAG_structure_type },
		      { "union ", DW_TAG_union_type },
		      { "enum ", DW_TAG_enumeration_type } };
	Dwarf_Die die;

	*lookup = (struct lookup){ 0 };
	lookup->is_number = number_name(name, lookup->name, sizeof(lookup->name));
	if (near) {
		die = *near;
		lookup->has_near = dwarf_diecu(&die, &lookup->near, NULL, NULL) != NULL;
	}
	if (lookup->is_number)
		return;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strncmp(name, words[i].word, strlen(words[i].word))) {
			lookup->tag = words[i].tag;
			name += strlen(words[i].word);
		}
	scope_squeeze(name + (strncmp(name, "::", 2) ? 0 : 2), lookup->name, sizeof(lookup->name));
}

struct pointer_lookup {
	const void *target; /* the description of what it points to */
	Dwarf_Die found;
	int is_found; /* to that, perhaps as const */
};

static int pointer_visit(const struct scope *scope, void *data)
{
	struct pointer_lookup *lookup = data;
	struct declared target = { .language = 0 };
	Dwarf_Die die = scope->levels[scope->level];

	if (dwarf_tag(&die) != DW_TAG_pointer_type || declared_of(&die, &target))
		return 0;
	if (target.die.addr == lookup->target) {
		lookup->found = die;
		lookup->is_found = 1;
		return 1;
	}
	if (lookup->is_found ||
	    (dwarf_tag(&target.die) != DW_TAG_const_type &&
	     dwarf_tag(&target.die) != DW_TAG_volatile_type) ||
	    declared_of(&target.die, &target) || target.die.addr != lookup->target)
		return 0;
	lookup->found = die;
	lookup->is_found = 1;
	return 0;
}

/* A typedef of a pointer: go to what that points to. */
static int pointer_enter(struct declared *type, const struct code_file *file)
{
	int err = declared_peel(type, file);

	if (err == -ENOENT || (!err && declared_tag(type) != DW_TAG_pointer_type))
		return -WM_E_WATCH_TYPE;
	if (!err)
		err = declared_of(&type->die, type);
	return err == -ENOENT ? -WM_E_WATCH_TYPE : err;
}

int named_find(const char *name, unsigned int pointers, const Dwarf_Die *near,
	       const struct code_file *file, struct declared *target)
{
	struct lookup lookup;
	int ret;

	lookup_init(&lookup, name, near);
	ret = scope_walk_all(file, 0, lookup_visit, &lookup);
	if (ret >= 0 && !lookup.is_found)
		ret = scope_walk_all(file, 1, lookup_visit, &lookup);
	if (ret < 0)
		return ret;
	if (!lookup.is_found)
		return -ENOENT;
	if (lookup.is_several && !lookup.is_near)
		return -WM_E_WATCH_SEVERAL;
	target->die = lookup.found;
	target->dimension = 0;
	if (!pointers)
		return pointer_enter(target, file);
	while (--pointers) {
		struct pointer_lookup pointer = { .target = target->die.addr };

		ret = scope_walk_all(file, 1, pointer_visit, &pointer);
		if (ret < 0 || !pointer.is_found)
			return ret < 0 ? ret : -ENOENT;
		target->die = pointer.found;
	}
	return 0;
}
