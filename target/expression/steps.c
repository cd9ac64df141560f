/* SPDX-License-Identifier: MIT */
#include "target/expression/steps.h"

#include "base/similar_names.h"
#include "target/expression/declared.h"
#include "target/expression/member.h"
#include "target/expression/named.h"
#include "target/expression/scope.h"
#include "target/expression/type_make.h"

#include <dwarf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>

#define NAMES_MAX 256 /* of members that near ones are looked for among */

/*
 * Objects of the C++ library whose operators -> * [] lead to other memory. A debugger calls the
 * operators in the program; here they are the members that libstdc++ and libc++ have, by name.
 */

#define LIBRARY_POINTER 1u  /* -> and *: unique_ptr, shared_ptr */
#define LIBRARY_ELEMENTS 2u /* []: these, vector, array, basic_string */

struct library_found {
	uint64_t offset;      /* of the pointer, or the array, in the object */
	struct declared type; /* its type, peeled */
	enum library_limit limit;
	uint64_t limit_offset; /* in the object */
};

#define WAYS_MAX 4
#define PATH_BYTES 128

/* Members on the way to the pointer, and to its limit, behind slashes: first libstdc++'s. */
struct way {
	const char *pointer, *limit;
};

/* A class's name ends at its template's arguments. */
static const struct kind {
	const char *name;
	unsigned int uses;
	enum library_limit limit;
	struct way ways[WAYS_MAX];
} kinds[] = {
	{ "std::unique_ptr<",
	  LIBRARY_POINTER | LIBRARY_ELEMENTS,
	  LIBRARY_NO_LIMIT,
	  { { "_M_t/_M_t/std::_Head_base<0...>::_M_head_impl", NULL },
	    { "_M_t/std::_Head_base<0...>::_M_head_impl", NULL },
	    { "__ptr_/__value_", NULL },
	    { "__ptr_", NULL } } },
	{ "std::shared_ptr<",
	  LIBRARY_POINTER | LIBRARY_ELEMENTS,
	  LIBRARY_NO_LIMIT,
	  { { "_M_ptr", NULL }, { "__ptr_", NULL } } },
	{ "std::vector<",
	  LIBRARY_ELEMENTS,
	  LIBRARY_END,
	  { { "_M_impl/_M_start", "_M_impl/_M_finish" }, { "__begin_", "__end_" } } },
	{ "std::array<",
	  LIBRARY_ELEMENTS,
	  LIBRARY_NO_LIMIT,
	  { { "_M_elems", NULL }, { "__elems_", NULL } } },
	{ "std::basic_string<",
	  LIBRARY_ELEMENTS,
	  LIBRARY_COUNT,
	  { { "_M_dataplus/_M_p", "_M_string_length" } } },
};

/* "std::__1::vector<int>" -> "std::vector<int>": versions and modes have namespaces. */
static int library_name(const struct declared *record, char *name)
{
	char path[SCOPE_PATH_MAX];
	struct scope scope = { .level = 0 };
	Dwarf_Die die = record->die;
	const char *rest = path + strlen("std::");

	if (scope_of(&die, &scope) || !scope_path(&scope, 0, path) ||
	    strncmp(path, "std::", strlen("std::")))
		return 0;
	if (!strncmp(rest, "__", 2) && strstr(rest, "::"))
		rest = strstr(rest, "::") + 2;
	snprintf(name, SCOPE_PATH_MAX, "std::%s", rest);
	return 1;
}

/* Go the members of a path. 0; -ENOENT: they are not there. */
static int path_go(const struct declared *record, const char *path, const struct code_file *file,
		   uint64_t *offset, struct declared *type)
{
	char detail[WATCH_DETAIL_MAX], name[PATH_BYTES];
	struct member_found member;

	*offset = 0;
	*type = *record;
	for (;;) {
		size_t bytes = strcspn(path, "/");

		snprintf(name, sizeof(name), "%.*s", (int)bytes, path);
		if (!declared_is_record(type) || member_find(type, name, file, &member, detail) ||
		    member.hop_count || member.member.is_static || member.member.bits)
			return -ENOENT;
		*offset += member.member.offset;
		*type = member.member.type;
		if (declared_peel(type, file))
			return -ENOENT;
		if (!path[bytes])
			return 0;
		path += bytes + 1;
	}
}

static int way_go(const struct declared *record, const struct kind *kind, const struct way *way,
		  const struct code_file *file, struct library_found *found)
{
	struct declared limit;
	int err = path_go(record, way->pointer, file, &found->offset, &found->type);

	if (err)
		return err;
	if (declared_tag(&found->type) != DW_TAG_pointer_type &&
	    declared_tag(&found->type) != DW_TAG_array_type)
		return -ENOENT;
	found->limit = kind->limit;
	return way->limit ? path_go(record, way->limit, file, &found->limit_offset, &limit) : 0;
}

/*
 * Find it in a peeled record. 0; -ENOENT: this class has no such operator here;
 * -EOPNOTSUPP: it has, but its members are not known here, as those of libc++'s basic_string.
 */
static int library_find(const struct declared *record, unsigned int use,
			const struct code_file *file, struct library_found *found)
{
	char name[SCOPE_PATH_MAX];

	*found = (struct library_found){ .type.language = record->language };
	if (!library_name(record, name))
		return -ENOENT;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const struct kind *kind = &kinds[i];

		if (!(kind->uses & use) || strncmp(name, kind->name, strlen(kind->name)))
			continue;
		for (size_t j = 0; j < WAYS_MAX && kind->ways[j].pointer; j++)
			if (!way_go(record, kind, &kind->ways[j], file, found))
				return 0;
		return -EOPNOTSUPP;
	}
	return -ENOENT;
}

/*
 * Refuse a step by what was done so far, as the user wrote it, and the type of that. -ENOENT
 * becomes -WM_E_WATCH_TYPE, and `why` is one of MISFIT_*.
 */
static int steps_misfit(const struct steps *steps, int error, const char *why,
			const struct watch_step *step)
{
	char name[DECLARED_NAME_MAX] = "";

	if (error == -ENOENT)
		error = -WM_E_WATCH_TYPE;
	else if (error == -WM_E_WATCH_TYPE)
		why = steps->type.dimension ? ", and in one piece only with all its indices"
					    : ", whose place and bounds are in a descriptor";
	else
		why = error == -WM_E_NO_DEBUG ? ", which is declared, but not defined" : "";
	if (steps->has_type)
		declared_name(&steps->type, name, sizeof(name));
	return expression_trouble_set(steps->trouble, error, step->at, step->bytes, "%.*s %s%s%s%s",
				      (int)step->length, steps->expr->text + step->from,
				      steps->has_type ? "is of type " : "has no type", name,
				      steps->has_type && steps->is_address ? " *" : "", why);
}

static int steps_refuse(const struct steps *steps, int error, const struct watch_step *step)
{
	return steps_misfit(steps, error, "", step);
}

static int steps_advance(const struct steps *steps, int64_t bytes)
{
	struct watch_place *place = steps->place;

	if (place->follow_count)
		return __builtin_add_overflow(place->follows[place->follow_count - 1].offset, bytes,
					      &place->follows[place->follow_count - 1].offset);
	place->start += (uint64_t)bytes;
	return 0;
}

/* A pointer is at the place: go where it leads. */
static void follow(struct steps *steps, size_t at, size_t bytes)
{
	struct watch_place *place = steps->place;

	/* WATCH_FOLLOWS_MAX: no expression has more. */
	if (place->follow_count < WATCH_FOLLOWS_MAX)
		place->follows[place->follow_count++] = (struct watch_follow){ .at = at,
									       .bytes = bytes };
}

/* Down to what has structure; a C++ reference is what it refers to. -ENOENT: void. */
static int steps_peel(struct steps *steps, size_t at, size_t bytes)
{
	for (int i = 0; i < 2; i++) {
		int err = declared_peel(&steps->type, steps->file), tag;

		if (err)
			return err;
		tag = declared_tag(&steps->type);
		if (steps->is_address ||
		    (tag != DW_TAG_reference_type && tag != DW_TAG_rvalue_reference_type))
			return 0;
		follow(steps, at, bytes);
		err = declared_of(&steps->type.die, &steps->type);
		if (err)
			return err;
	}
	return -WM_E_WATCH_DAMAGED;
}

/* From an object of the C++ library to its pointer or array. -ENOENT: not such an object. */
static int library_go(struct steps *steps, unsigned int use, struct library_found *found)
{
	int err = -ENOENT;

	if (steps->is_address || !declared_is_record(&steps->type))
		return err;
	err = library_find(&steps->type, use, steps->file, found);
	if (err)
		return err;
	if (found->offset > INT64_MAX || steps_advance(steps, (int64_t)found->offset))
		return -WM_E_WATCH_DAMAGED;
	steps->type = found->type;
	return 0;
}

/* From a pointer, or an array, to what it points to. */
static int target_go(struct steps *steps, const struct watch_step *step, const char *why)
{
	uint64_t bytes, count;
	struct library_found library;
	int64_t lowest;
	int err;

	if (steps->is_address) {
		steps->is_address = 0;
		return 0;
	}
	if (!steps->has_type && steps->expr->length) {
		/* the user gave the length: the type need not say that it is a pointer */
		follow(steps, step->from, step->length);
		return 0;
	}
	if (!steps->has_type)
		return steps_misfit(steps, -ENOENT, why, step);
	err = steps_peel(steps, step->from, step->length);
	if (err)
		return steps_misfit(steps, err, why, step);
	err = library_go(steps, LIBRARY_POINTER, &library);
	if (err && err != -ENOENT)
		return steps_misfit(steps, err == -EOPNOTSUPP ? -ENOENT : err, why, step);
	switch (declared_tag(&steps->type)) {
	case DW_TAG_pointer_type:
		follow(steps, step->from, step->length);
		err = declared_of(&steps->type.die, &steps->type);
		steps->has_type = err != -ENOENT;
		return err == -ENOENT ? 0 : err;
	case DW_TAG_array_type:
		err = declared_element(&steps->type, &steps->type, &bytes, &lowest, &count);
		return err ? steps_refuse(steps, err, step) : 0;
	case DW_TAG_subroutine_type:
		return 0; /* *f is f */
	default:
		return steps_misfit(steps, -ENOENT, why, step);
	}
}

struct near_names {
	const char *all[NAMES_MAX];
	size_t count;
};

static int name_keep(const struct declared_member *member, void *data)
{
	struct near_names *names = data;

	if (member->name && !member->is_base)
		names->all[names->count++] = member->name;
	return names->count == NAMES_MAX;
}

static int no_member(const struct steps *steps, const struct watch_step *step)
{
	struct near_names names = { .count = 0 };
	char type[DECLARED_NAME_MAX], meant[256];

	declared_name(&steps->type, type, sizeof(type));
	declared_members(&steps->type, name_keep, &names);
	return expression_trouble_set(steps->trouble, -WM_E_WATCH_MEMBER, step->at, step->bytes,
				      "%s has no %s%s", type, step->name,
				      similar_words(step->name, names.all, names.count, meant,
						    sizeof(meant)));
}

/* Step into the virtual base classes on the way. Each has a record of its own. */
static int bases_enter(struct steps *steps, const struct watch_step *step,
		       const struct member_found *found)
{
	struct watch_place *place = steps->place;

	for (unsigned int i = 0; i < found->hop_count; i++) {
		const struct member_hop *hop = &found->hops[i];

		if (steps->base_count++ == WATCH_BASES_MAX)
			return -WM_E_WATCH_SPLIT;
		if (hop->offset > INT64_MAX || steps_advance(steps, (int64_t)hop->offset))
			return -WM_E_WATCH_DAMAGED;
		follow(steps, step->from, step->length);
		place->follows[place->follow_count - 1].below = hop->below;
		steps->type = hop->base;
	}
	return 0;
}

static int member_refuse(const struct steps *steps, const struct watch_step *step, int err,
			 const char *candidates)
{
	char type[DECLARED_NAME_MAX];
	uint64_t bytes;

	declared_name(&steps->type, type, sizeof(type));
	if (err == -WM_E_WATCH_SEVERAL)
		return expression_trouble_set(steps->trouble, err, step->at, step->bytes,
					      "%.*s is of type %s, which has %s", (int)step->length,
					      steps->expr->text + step->from, type, candidates);
	if (err == -ENOENT)
		return declared_bytes(&steps->type, &bytes)
			       ? steps_refuse(steps, -WM_E_NO_DEBUG, step)
			       : no_member(steps, step);
	return steps_refuse(steps, err, step);
}

/* A static member is one variable, under a name of its own. */
static int static_refuse(const struct steps *steps, const struct watch_step *step,
			 const struct member_found *found)
{
	char type[DECLARED_NAME_MAX];

	declared_name(&found->record, type, sizeof(type));
	return expression_trouble_set(steps->trouble, -WM_E_WATCH_MEMBER, step->at, step->bytes,
				      "%s is static in %s: watch %s::%s", found->member.name, type,
				      type, found->member.name);
}

static int member_go(struct steps *steps, const struct watch_step *step)
{
	char candidates[WATCH_DETAIL_MAX];
	struct member_found found;
	int err;

	if (!steps->has_type || steps->is_address)
		return steps_misfit(steps, -ENOENT, MISFIT_MEMBER, step);
	err = steps_peel(steps, step->from, step->length);
	if (err)
		return steps_misfit(steps, err, MISFIT_VOID, step);
	if (!declared_is_record(&steps->type))
		return steps_misfit(steps, -ENOENT, MISFIT_MEMBER, step);
	err = member_find(&steps->type, step->name, steps->file, &found, candidates);
	if (err)
		return member_refuse(steps, step, err, candidates);
	if (found.member.is_static)
		return static_refuse(steps, step, &found);
	err = bases_enter(steps, step, &found);
	if (declared_bytes(&steps->type, &steps->record_bytes))
		steps->record_bytes = 0;
	if (err || found.member.offset > INT64_MAX ||
	    steps_advance(steps, (int64_t)found.member.offset))
		return steps_refuse(steps, -WM_E_WATCH_DAMAGED, step);
	steps->type = found.member.type;
	steps->bit = found.member.bit;
	steps->bits = found.member.bits;
	steps->record_offset = found.member.offset;
	return 0;
}

/* From a container to its pointer or array. */
static int elements_go(struct steps *steps, const struct watch_step *step,
		       struct library_found *library)
{
	const struct declared type = steps->type;
	int err = library_go(steps, LIBRARY_ELEMENTS, library);

	if (!err && step->index < 0)
		err = -WM_E_WATCH_MEMBER;
	if (!err || err == -ENOENT)
		return 0;
	steps->type = type;
	return steps_misfit(steps, err == -EOPNOTSUPP ? -ENOENT : err, MISFIT_ELEMENT, step);
}

/* The place is an element of a container. How many it has is known when the pointer is read. */
static void limit_set(const struct steps *steps, const struct watch_step *step,
		      const struct library_found *library, uint64_t bytes)
{
	struct watch_place *place = steps->place;
	struct watch_follow *follow;

	if (!library->limit || !place->follow_count || !bytes)
		return;
	follow = &place->follows[place->follow_count - 1];
	follow->limit = library->limit;
	follow->limit_offset = (int64_t)(library->limit_offset - library->offset);
	follow->index = (uint64_t)step->index;
	follow->element_bytes = bytes;
}

static int index_go(struct steps *steps, const struct watch_step *step)
{
	struct library_found library = { .limit = LIBRARY_NO_LIMIT };
	uint64_t bytes, count = UINT64_MAX;
	int64_t lowest = 0, distance;
	struct declared target;
	int err;

	if (!steps->has_type)
		return steps_misfit(steps, -ENOENT, MISFIT_ELEMENT, step);
	err = steps->is_address ? 0 : steps_peel(steps, step->from, step->length);
	if (err)
		return steps_misfit(steps, err, MISFIT_ELEMENT, step);
	err = elements_go(steps, step, &library);
	if (err)
		return err;
	if (!steps->is_address && declared_tag(&steps->type) == DW_TAG_array_type) {
		struct declared element;

		err = declared_element(&steps->type, &element, &bytes, &lowest, &count);
		if (err)
			return steps_refuse(steps, err, step);
		/* An array of none at a structure's end has as many as there is room for. */
		if (count && count != UINT64_MAX &&
		    (step->index < lowest || (uint64_t)(step->index - lowest) >= count))
			return steps_refuse(steps, -WM_E_WATCH_MEMBER, step);
		steps->type = element;
	} else {
		if (!steps->is_address && declared_tag(&steps->type) != DW_TAG_pointer_type)
			return steps_misfit(steps, -ENOENT, MISFIT_ELEMENT, step);
		err = target_go(steps, step, MISFIT_ELEMENT);
		if (err)
			return err;
		target = steps->type; /* called as it is declared */
		err = steps->has_type ? declared_peel(&target, steps->file) : -ENOENT;
		if (!err)
			err = declared_bytes(&target, &bytes);
		if (err)
			return steps_misfit(steps, err, MISFIT_VOID, step);
		limit_set(steps, step, &library, bytes);
	}
	if (__builtin_sub_overflow(step->index, lowest, &distance) || bytes > INT64_MAX ||
	    __builtin_mul_overflow(distance, (int64_t)bytes, &distance) ||
	    steps_advance(steps, distance))
		return steps_refuse(steps, -WM_E_WATCH_MEMBER, step);
	return 0;
}

static int address_go(struct steps *steps, const struct watch_step *step)
{
	int err;

	if (steps->is_address || steps->bits)
		return steps_refuse(steps, -WM_E_WATCH_SYNTAX, step);
	err = steps->has_type ? steps_peel(steps, step->from, step->length) : 0;
	if (err && err != -ENOENT)
		return steps_refuse(steps, err, step);
	steps->is_address = 1;
	return 0;
}

/* ---- casts ---- */

/* An integer as wide as a pointer may be one. */
static int is_wide_integer(const struct declared *type)
{
	Dwarf_Attribute attribute;
	Dwarf_Die die = type->die;
	Dwarf_Word encoding;
	uint64_t bytes;

	return declared_tag(type) == DW_TAG_base_type && !declared_bytes(type, &bytes) &&
	       bytes == 8 && dwarf_attr(&die, DW_AT_encoding, &attribute) &&
	       !dwarf_formudata(&attribute, &encoding) &&
	       (encoding == DW_ATE_signed || encoding == DW_ATE_unsigned);
}

/* What the cast is of becomes an address: the place is where that leads. */
static int operand_go(struct steps *steps, const struct watch_step *step)
{
	int err;

	if (steps->is_address)
		return 0;
	if (!steps->has_type || steps->bits)
		return steps_misfit(steps, -ENOENT, MISFIT_POINTER, step);
	err = steps_peel(steps, step->from, step->length);
	if (err)
		return steps_misfit(steps, err, MISFIT_POINTER, step);
	if (is_wide_integer(&steps->type)) {
		follow(steps, step->from, step->length);
		steps->has_type = 0;
	} else if (declared_is_record(&steps->type)) {
		return steps_misfit(steps, -ENOENT, MISFIT_POINTER, step);
	} else {
		err = target_go(steps, step, MISFIT_POINTER);
	}
	steps->is_address = 1;
	return err;
}

/* The type, from the module of the variable, or of any. */
static int type_find(const struct steps *steps, const struct watch_step *step, struct steps *to)
{
	unsigned int pointers = (unsigned int)step->index;
	int err = -ENOENT;

	if (steps->file)
		err = named_find(step->name, pointers, steps->has_type ? &steps->type.die : NULL,
				 steps->file, &to->type);
	for (size_t i = 0; err == -ENOENT && i < steps->module_count; i++) {
		const struct code_file *file = steps->modules[i]->file;

		if (!code_dwarf_of(steps->modules[i]->file) || file == steps->file)
			continue;
		err = named_find(step->name, pointers, NULL, file, &to->type);
		to->file = file;
	}
	if (!err || err == -WM_E_WATCH_DAMAGED || err == -ENOMEM)
		return err;
	return expression_trouble_set(steps->trouble,
				      err == -ENOENT		? -WM_E_NO_DEBUG
				      : err == -WM_E_WATCH_TYPE ? -WM_E_WATCH_SYNTAX
								: err,
				      step->at, step->bytes, "%.*s%s", (int)step->bytes,
				      steps->expr->text + step->at,
				      err == -ENOENT
					      ? ": there is no such type; write its whole name: "
						"(struct node *), (shop::Offer *)"
				      : err == -WM_E_WATCH_TYPE	   ? " is no cast to a pointer"
				      : err == -WM_E_WATCH_SEVERAL ? ": types of that name differ"
								   : "");
}

/* A class and one of its base classes: the object stays the same one. */
static int object_go(struct steps *steps, const struct watch_step *step, struct declared from,
		     struct declared to)
{
	char candidates[WATCH_DETAIL_MAX];
	struct member_found found;
	int err;

	if (declared_peel(&from, steps->file) || !declared_is_record(&from) ||
	    declared_peel(&to, steps->file) || !declared_is_record(&to))
		return 0;
	err = member_base(&from, &to, steps->file, &found, candidates);
	if (!err) {
		err = bases_enter(steps, step, &found);
		return err || steps_advance(steps, (int64_t)found.member.offset)
			       ? steps_refuse(steps, -WM_E_WATCH_DAMAGED, step)
			       : 0;
	}
	if (err == -ENOENT)
		err = member_base(&to, &from, steps->file, &found, candidates);
	if (!err && found.hop_count)
		return expression_trouble_set(steps->trouble, -WM_E_WATCH_SYNTAX, step->at,
					      step->bytes,
					      "%.*s: its operand points to a virtual base class",
					      (int)step->bytes, steps->expr->text + step->at);
	if (!err)
		err = steps_advance(steps, -(int64_t)found.member.offset) ? -WM_E_WATCH_DAMAGED : 0;
	else if (err == -WM_E_WATCH_SEVERAL)
		return member_refuse(steps, step, err, candidates);
	return err == -ENOENT ? 0 : err ? steps_refuse(steps, err, step) : 0;
}

static int cast_go(struct steps *steps, const struct watch_step *step)
{
	int is_void = step->index == 1 && !strcmp(step->name, "void");
	struct steps to = *steps;
	int err = is_void ? 0 : type_find(steps, step, &to);

	if (!err)
		err = operand_go(steps, step);
	if (!err && !is_void && steps->has_type && to.file == steps->file)
		err = object_go(steps, step, steps->type, to.type);
	steps->file = to.file;
	steps->type = to.type;
	steps->has_type = !is_void;
	return err;
}

int steps_go(struct steps *steps)
{
	const struct watch_expr *expr = steps->expr;
	int err = 0;

	for (unsigned int i = 0; !err && i < expr->step_count; i++) {
		const struct watch_step *step = &expr->steps[i];

		if (steps->bits && step->kind != WATCH_ADDRESS && step->kind != WATCH_CAST)
			steps->bits = 0; /* an integer has nothing in it: the type refuses it */
		switch (step->kind) {
		case WATCH_ARROW:
			err = target_go(steps, step, MISFIT_POINTER);
			if (!err)
				err = member_go(steps, step);
			break;
		case WATCH_MEMBER:
			err = member_go(steps, step);
			break;
		case WATCH_INDEX:
			err = index_go(steps, step);
			break;
		case WATCH_DEREF:
			err = target_go(steps, step, MISFIT_POINTER);
			break;
		case WATCH_CAST:
			err = cast_go(steps, step);
			break;
		default:
			err = address_go(steps, step);
		}
	}
	return err;
}

/* ---- what the steps came to: how much is watched ---- */

/* The whole expression, for what is wrong with what it came to. */
static int refuse_all(const struct steps *steps, int error, const char *why)
{
	const struct watch_expr *expr = steps->expr;
	struct watch_step all = { .at = expr->at, .bytes = expr->bytes };
	const char *words = strstr(expr->text, expr->words);

	all.from = words ? (size_t)(words - expr->text) : expr->at;
	all.length = words ? strlen(expr->words) : expr->bytes;
	return steps_misfit(steps, error, why, &all);
}

static int refuse_empty(const struct steps *steps, const struct declared *type)
{
	const struct watch_expr *expr = steps->expr;
	char name[DECLARED_NAME_MAX];

	declared_name(type, name, sizeof(name));
	return expression_trouble_set(steps->trouble, -WM_E_WATCH_SYNTAX, expr->at, expr->bytes,
				      "%s is of type %s, which has no bytes", expr->words, name);
}

static int end_code(struct steps *steps)
{
	struct watch_place *place = steps->place;
	char name[DECLARED_NAME_MAX];
	struct declared declared;
	int err = 0;

	if (steps->has_type) {
		declared = steps->type;
		err = steps->is_address ? 0
					: steps_peel(steps, steps->expr->at, steps->expr->bytes);
		if (err)
			return refuse_all(steps, err, MISFIT_VOID);
		if (declared_tag(&steps->type) != DW_TAG_subroutine_type) {
			steps->type = declared;
			return refuse_all(steps, -ENOENT, MISFIT_DATA);
		}
		declared_name(&steps->type, name, sizeof(name));
	} else {
		snprintf(name, sizeof(name), "code");
	}
	place->bytes = 1;
	return type_make_single(&place->type, WATCH_CODE, WM_TYPE_BYTES, 1, name);
}

/*
 * A store to one of the bits writes its byte, at least, and a debug register sees every access to
 * one of its bytes. So the smallest piece that holds all of the bits will do, whatever storage unit
 * the compiler uses for them.
 */
static int end_bits(struct steps *steps)
{
	uint64_t bytes = (steps->bit + steps->bits + 7) / 8, into;

	for (uint64_t unit = 1; unit <= 8; unit *= 2) {
		into = steps->record_offset % unit;
		if (into + bytes > unit || steps->record_offset - into + unit > steps->record_bytes)
			continue;
		if (steps_advance(steps, -(int64_t)into))
			return refuse_all(steps, -WM_E_WATCH_DAMAGED, MISFIT_VOID);
		steps->bit += (unsigned int)into * 8;
		bytes = unit;
		break;
	}
	steps->place->bytes = bytes;
	return type_make(&steps->place->type, &steps->type, bytes, steps->bit, steps->bits,
			 steps->file);
}

int steps_end(struct steps *steps)
{
	const struct watch_expr *expr = steps->expr;
	struct watch_place *place = steps->place;
	struct declared type;
	unsigned int follows = place->follow_count;
	uint64_t bytes;
	int err = 0;

	if (expr->kind == WATCH_EXECUTE)
		return end_code(steps);
	if (expr->length) {
		if (steps->has_type && !steps->is_address)
			err = steps_peel(steps, expr->at, expr->bytes);
		if (err && err != -ENOENT)
			return refuse_all(steps, err, MISFIT_VOID);
		place->bytes = expr->length;
		return expression_type_plain(&place->type, expr->length);
	}
	if (!steps->has_type)
		return refuse_all(steps, -ENOENT, MISFIT_VOID);
	steps->is_address = 0;
	type = steps->type; /* called as it is declared: the typedef's name */
	err = steps_peel(steps, expr->at, expr->bytes);
	if (err)
		return refuse_all(steps, err, MISFIT_VOID);
	if (declared_tag(&steps->type) == DW_TAG_subroutine_type)
		return refuse_all(steps, -ENOENT, MISFIT_FUNCTION);
	if (steps->bits)
		return end_bits(steps);
	err = declared_bytes(&steps->type, &bytes);
	if (err)
		return refuse_all(steps, err, MISFIT_VOID);
	if (!bytes)
		return refuse_empty(steps, &type);
	if (place->follow_count > follows) /* it was a reference */
		type = steps->type;
	place->bytes = bytes;
	err = type_make(&place->type, &type, 0, 0, 0, steps->file);
	return err == -WM_E_WATCH_DAMAGED ? refuse_all(steps, err, MISFIT_VOID) : err;
}
