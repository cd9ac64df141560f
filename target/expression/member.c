/* SPDX-License-Identifier: MIT */
#include "target/expression/member.h"

#include "target/expression/scope.h"

#include <ctype.h>
#include <dwarf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

#define DEPTH_MAX 16	 /* of anonymous members and base classes in each other */
#define CANDIDATES_MAX 6 /* that are distinguished */
#define REST "...>"

/* The way from the record to one of its subobjects. */
struct route {
	struct member_hop hops[MEMBER_HOPS_MAX];
	unsigned int hop_count;
	int is_unknown;	 /* through a virtual base class whose place is unknown */
	uint64_t offset; /* from the last hop */
	struct declared classes[DEPTH_MAX];
	unsigned int depth;
};

struct candidate {
	struct route route;
	struct declared_member member; /* of a class: not set */
};

struct seeking {
	const char *name;	    /* NULL: find a class */
	char class[SCOPE_PATH_MAX]; /* as scope_squeeze() has it */
	const struct code_file *file;
	struct route route; /* the walk's */
	unsigned int looked;
	unsigned int nested; /* anonymous members in each other */
	int is_too_deep;
	int is_incomplete; /* debug information lacks a class that may have it */
	unsigned int count;
	struct candidate candidates[CANDIDATES_MAX];
};

static const struct declared *innermost(const struct route *route)
{
	return &route->classes[route->depth - 1];
}

/*
 * Two ways to a virtual base class reach the same one. A static member is one, however many
 * subobjects of its class there are.
 */
static int is_same(const struct candidate *a, const struct candidate *b)
{
	const struct route *one = &a->route, *other = &b->route;

	if (a->member.is_static && b->member.is_static)
		return innermost(one)->die.addr == innermost(other)->die.addr;
	if (!one->hop_count != !other->hop_count || one->offset != other->offset ||
	    innermost(one)->die.addr != innermost(other)->die.addr ||
	    a->member.offset != b->member.offset)
		return 0;
	return !one->hop_count || one->hops[one->hop_count - 1].base.die.addr ==
					  other->hops[other->hop_count - 1].base.die.addr;
}

/* 1: this class has it, and no other of that name. */
static int candidate_add(struct seeking *seeking, const struct declared_member *member)
{
	struct candidate *candidate = &seeking->candidates[seeking->count];

	if (seeking->count == CANDIDATES_MAX)
		return 1;
	candidate->route = seeking->route;
	candidate->member = member ? *member : (struct declared_member){ 0 };
	for (unsigned int i = 0; i < seeking->count; i++)
		if (is_same(&seeking->candidates[i], candidate))
			return 1;
	seeking->count++;
	return 1;
}

/* ---- a class's own members ---- */

static int own_visit(const struct declared_member *member, void *data)
{
	struct seeking *seeking = data;
	struct declared type = member->type;
	uint64_t offset = seeking->route.offset;
	int err;

	if (++seeking->looked > DECLARED_MEMBERS_MAX)
		return -WM_E_WATCH_DAMAGED;
	if (member->is_base)
		return 0;
	if (member->name)
		return strcmp(member->name, seeking->name) ? 0 : candidate_add(seeking, member);
	if (seeking->nested == DEPTH_MAX || declared_peel(&type, seeking->file) ||
	    !declared_is_record(&type))
		return 0;
	/* The members of an anonymous one are the class's own. */
	seeking->nested++;
	seeking->route.offset += member->offset;
	err = declared_members(&type, own_visit, seeking);
	seeking->route.offset = offset;
	seeking->nested--;
	return err;
}

static int ends_as(const char *path, const char *wanted)
{
	char squeezed[SCOPE_PATH_MAX];
	size_t bytes, end = strlen(wanted);

	scope_squeeze(path, squeezed, sizeof(squeezed));
	if (end > strlen(REST) && !strcmp(wanted + end - strlen(REST), REST)) {
		end -= strlen(REST);
		return !strncmp(squeezed, wanted, end) && !isdigit((unsigned char)squeezed[end]);
	}
	bytes = strlen(squeezed);
	return bytes >= end && !strcmp(squeezed + bytes - end, wanted) &&
	       (bytes == end || squeezed[bytes - end - 1] == ':');
}

/* Whether a class is the one to find: "Base", "ns::Base", "Base<int>"; ignores spaces. */
static int is_class(const struct seeking *seeking, const struct declared *record)
{
	struct scope scope = { .level = 0 };
	char path[SCOPE_PATH_MAX];
	Dwarf_Die die = record->die;

	if (scope_of(&die, &scope))
		return 0;
	return (scope_path(&scope, 0, path) && ends_as(path, seeking->class)) ||
	       (scope_path(&scope, 1, path) && ends_as(path, seeking->class));
}

/* ---- its base classes ---- */

static int record_seek(struct seeking *seeking);

/* -ENOSPC: too deep. */
static int base_enter(struct route *route, const struct declared_member *base,
		      const struct declared *type)
{
	if (route->depth == DEPTH_MAX)
		return -ENOSPC;
	route->classes[route->depth++] = *type;
	if (!base->is_virtual) {
		route->offset += base->offset;
		return 0;
	}
	if (route->hop_count == MEMBER_HOPS_MAX)
		return -ENOSPC;
	route->is_unknown |= !base->below;
	route->hops[route->hop_count++] = (struct member_hop){ route->offset, base->below, *type };
	route->offset = 0;
	return 0;
}

static int base_visit(const struct declared_member *member, void *data)
{
	struct seeking *seeking = data;
	struct declared type = member->type;
	struct route route;
	int err;

	if (++seeking->looked > DECLARED_MEMBERS_MAX)
		return -WM_E_WATCH_DAMAGED;
	if (!member->is_base || declared_peel(&type, seeking->file) || !declared_is_record(&type))
		return 0;
	if (dwarf_hasattr(&type.die, DW_AT_declaration))
		seeking->is_incomplete = 1;
	route = seeking->route;
	err = base_enter(&seeking->route, member, &type);
	if (err)
		seeking->is_too_deep = 1;
	else
		err = record_seek(seeking);
	seeking->route = route;
	return err == -ENOSPC ? 0 : err;
}

/*
 * A type unit may lack a static member: GCC moves its declaration to the unit that defines it, into
 * a declaration of the class.
 */
static int type_unit_visit(const struct scope *scope, void *data)
{
	struct seeking *seeking = data;
	const struct declared *record = innermost(&seeking->route);
	struct declared declaration = *record;
	Dwarf_Attribute attribute;
	Dwarf_Die whole;

	declaration.die = scope->levels[scope->level];
	if (!dwarf_attr(&declaration.die, DW_AT_signature, &attribute) ||
	    !dwarf_formref_die(&attribute, &whole) || whole.addr != record->die.addr)
		return 0;
	return declared_members(&declaration, own_visit, seeking);
}

static int type_unit_seek(struct seeking *seeking)
{
	struct scope scope = { .level = 0 };
	Dwarf_Die die = innermost(&seeking->route)->die;

	if (scope_of(&die, &scope) || dwarf_tag(&scope.levels[0]) != DW_TAG_type_unit)
		return 0;
	return scope_walk(seeking->file, scope.level > 1, type_unit_visit, seeking);
}

/* In the innermost class of the route; in its base classes only if it has no such name itself. */
static int record_seek(struct seeking *seeking)
{
	const struct declared record = *innermost(&seeking->route);
	int ret;

	if (seeking->name) {
		ret = declared_members(&record, own_visit, seeking);
		if (!ret)
			ret = type_unit_seek(seeking);
	} else {
		ret = is_class(seeking, &record) ? candidate_add(seeking, NULL) : 0;
	}
	if (!ret)
		ret = declared_members(&record, base_visit, seeking);
	return ret < 0 ? ret : 0;
}

/* ---- members that others hide ---- */

struct basing {
	const struct seeking *seeking;
	const void *wanted; /* a virtual base class: its entry */
	unsigned int looked, depth;
};

/* 1: it is the base class, or has it. */
static int virtual_visit(const struct declared_member *member, void *data)
{
	struct basing *basing = data;
	struct declared type = member->type;
	int ret;

	if (++basing->looked > DECLARED_MEMBERS_MAX)
		return -WM_E_WATCH_DAMAGED;
	if (!member->is_base || basing->depth == DEPTH_MAX ||
	    declared_peel(&type, basing->seeking->file) || !declared_is_record(&type))
		return 0;
	if (member->is_virtual && type.die.addr == basing->wanted)
		return 1;
	basing->depth++;
	ret = declared_members(&type, virtual_visit, basing);
	basing->depth--;
	return ret;
}

/* 1, 0 or an error. */
static int hides(const struct seeking *seeking, const struct route *derived,
		 const struct route *base)
{
	struct basing basing = { .seeking = seeking };

	if (!base->hop_count)
		return 0;
	basing.wanted = base->hops[base->hop_count - 1].base.die.addr;
	return declared_members(innermost(derived), virtual_visit, &basing);
}

/*
 * A class hides its base classes' members of the same name. In those that are not virtual none is
 * looked for. A virtual one may be reached past the class, too: the rule of dominance.
 */
static int hidden_drop(struct seeking *seeking)
{
	unsigned int left = 0, count = seeking->count;
	int is_hidden[CANDIDATES_MAX] = { 0 };

	for (unsigned int i = 0; i < count; i++)
		for (unsigned int j = 0; j < count && !is_hidden[i]; j++) {
			is_hidden[i] = i == j ? 0
					      : hides(seeking, &seeking->candidates[j].route,
						      &seeking->candidates[i].route);
			if (is_hidden[i] < 0)
				return is_hidden[i];
		}
	for (unsigned int i = 0; i < count; i++)
		if (!is_hidden[i])
			seeking->candidates[left++] = seeking->candidates[i];
	seeking->count = left;
	return 0;
}

/* ---- results ---- */

/* "A::x (C -> A), B::x (C -> B)" */
static int ambiguous(const struct seeking *seeking, const char *name, char *detail)
{
	char text[DECLARED_NAME_MAX];
	size_t used = 0;

	*detail = 0;
	for (unsigned int i = 0; i < seeking->count && used < WATCH_DETAIL_MAX; i++) {
		const struct route *route = &seeking->candidates[i].route;

		declared_name(innermost(route), text, sizeof(text));
		used += (size_t)snprintf(detail + used, WATCH_DETAIL_MAX - used, "%s%s%s%s",
					 i ? ", " : "", text, seeking->name ? "::" : "",
					 seeking->name ? name : "");
		for (unsigned int j = 0; j < route->depth && used < WATCH_DETAIL_MAX; j++) {
			declared_name(&route->classes[j], text, sizeof(text));
			used += (size_t)snprintf(detail + used, WATCH_DETAIL_MAX - used, "%s%s%s",
						 j ? " -> " : " (", text,
						 j + 1 == route->depth ? ")" : "");
		}
	}
	return -WM_E_WATCH_SEVERAL;
}

static int settle(const struct seeking *seeking, const char *name, char *detail)
{
	if (!seeking->count && seeking->is_too_deep)
		return -WM_E_WATCH_SPLIT;
	if (!seeking->count)
		return seeking->is_incomplete ? -WM_E_NO_DEBUG : -ENOENT;
	return seeking->count > 1 ? ambiguous(seeking, name, detail) : 0;
}

static int seek(struct seeking *seeking, const char *name, char *detail)
{
	const char *last = scope_last_part(name);
	int err = 0;

	seeking->name = NULL;
	if (last != name) {
		size_t bytes = (size_t)(last - name) - 2;

		snprintf(detail, WATCH_DETAIL_MAX, "%.*s", (int)bytes, name);
		scope_squeeze(detail, seeking->class, sizeof(seeking->class));
		err = record_seek(seeking);
		if (!err)
			err = settle(seeking, name, detail);
		if (err)
			return err;
		seeking->route = seeking->candidates[0].route;
	}
	seeking->name = last;
	seeking->count = 0;
	err = record_seek(seeking);
	if (!err && seeking->count > 1)
		err = hidden_drop(seeking);
	return err ? err : settle(seeking, last, detail);
}

int member_find(const struct declared *record, const char *name, const struct code_file *file,
		struct member_found *found, char *detail)
{
	struct seeking seeking = { .file = file };
	const struct candidate *only = &seeking.candidates[0];
	int err;

	seeking.route.classes[seeking.route.depth++] = *record;
	err = seek(&seeking, name, detail);
	if (err)
		return err;
	if (only->route.is_unknown)
		return -WM_E_WATCH_SPLIT;
	*found = (struct member_found){ .member = only->member,
					.hop_count = only->route.hop_count,
					.record = *innermost(&only->route) };
	memcpy(found->hops, only->route.hops, sizeof(found->hops));
	found->member.offset += only->route.offset;
	return 0;
}

int member_base(const struct declared *record, const struct declared *base,
		const struct code_file *file, struct member_found *found, char *detail)
{
	struct seeking seeking = { .file = file };
	const struct candidate *only = &seeking.candidates[0];
	struct scope scope = { .level = 0 };
	char path[SCOPE_PATH_MAX];
	Dwarf_Die die = base->die;
	int err;

	if (scope_of(&die, &scope) || !scope_path(&scope, 1, path))
		return -ENOENT;
	scope_squeeze(path, seeking.class, sizeof(seeking.class));
	seeking.route.classes[seeking.route.depth++] = *record;
	err = record_seek(&seeking);
	if (!err)
		err = settle(&seeking, path, detail);
	if (err)
		return err;
	if (only->route.is_unknown)
		return -WM_E_WATCH_SPLIT;
	*found = (struct member_found){ .hop_count = only->route.hop_count,
					.record = *innermost(&only->route) };
	memcpy(found->hops, only->route.hops, sizeof(found->hops));
	found->member.offset = only->route.offset;
	return 0;
}
