/* SPDX-License-Identifier: MIT */
#include "target/expression/declared.h"

#include "target/expression/scope.h"

#include <dwarf.h>
#include <errno.h>
#include <string.h>
#include <waymark/error.h>

#define PEELS_MAX 64
#define LANGUAGE_FORTRAN18 0x2d /* DW_LANG_Fortran18, which libdw does not know */
#define DIMENSIONS_MAX 16

int declared_of(Dwarf_Die *die, struct declared *type)
{
	Dwarf_Attribute attribute;

	Dwarf_Die whole;

	type->dimension = 0;
	if (!dwarf_attr_integrate(die, DW_AT_type, &attribute))
		return -ENOENT;
	if (!dwarf_formref_die(&attribute, &type->die))
		return -WM_E_WATCH_DAMAGED;
	/* A reference to a type that has a unit of its own. */
	if (dwarf_attr(&type->die, DW_AT_signature, &attribute) &&
	    dwarf_formref_die(&attribute, &whole))
		type->die = whole;
	return 0;
}

int declared_tag(const struct declared *type)
{
	Dwarf_Die die = type->die;

	return dwarf_tag(&die);
}

int declared_is_record(const struct declared *type)
{
	switch (declared_tag(type)) {
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
	case DW_TAG_union_type:
	case DW_TAG_interface_type:
		return 1;
	default:
		return 0;
	}
}

/* ---- what a declaration is of ---- */

struct completion {
	const char *name;
	int tag;
	char path[SCOPE_PATH_MAX];
	Dwarf_Die *die;
};

/* C++ lets a class be declared as a structure. */
static int is_same_kind(int tag, int other)
{
	return tag == other || ((tag == DW_TAG_structure_type || tag == DW_TAG_class_type) &&
				(other == DW_TAG_structure_type || other == DW_TAG_class_type));
}

static int complete(const struct scope *scope, void *data)
{
	struct completion *completion = data;
	Dwarf_Die die = scope->levels[scope->level];
	char path[SCOPE_PATH_MAX];
	const char *name;

	if (!is_same_kind(dwarf_tag(&die), completion->tag))
		return 0;
	name = dwarf_diename(&die);
	if (!name || strcmp(name, completion->name) || dwarf_hasattr(&die, DW_AT_declaration) ||
	    !dwarf_hasattr(&die, DW_AT_byte_size) || !scope_path(scope, 1, path) ||
	    strcmp(path, completion->path))
		return 0;
	*completion->die = die;
	return 1;
}

/* Replace a declaration by the whole type, from anywhere in the module. Else leave it. */
static void declaration_complete(Dwarf_Die *die, const struct code_file *file)
{
	struct completion completion = { .name = dwarf_diename(die),
					 .tag = dwarf_tag(die),
					 .die = die };
	struct scope scope = { .level = 0 };

	if (!file || !completion.name || scope_of(die, &scope) ||
	    !scope_path(&scope, 1, completion.path))
		return;
	scope_walk_all(file, scope.level > 1, complete, &completion);
}

int declared_peel(struct declared *type, const struct code_file *file)
{
	for (int i = 0; i < PEELS_MAX; i++) {
		int err;

		switch (dwarf_tag(&type->die)) {
		case DW_TAG_typedef:
		case DW_TAG_const_type:
		case DW_TAG_volatile_type:
		case DW_TAG_restrict_type:
		case DW_TAG_atomic_type:
		case DW_TAG_immutable_type:
		case DW_TAG_packed_type:
		case DW_TAG_shared_type:
		case DW_TAG_subrange_type:
			err = declared_of(&type->die, type);
			if (err)
				return err;
			break;
		case DW_TAG_unspecified_type: /* decltype(nullptr) */
			return -ENOENT;
		default:
			if (dwarf_hasattr(&type->die, DW_AT_declaration))
				declaration_complete(&type->die, file);
			return 0;
		}
	}
	return -WM_E_WATCH_DAMAGED;
}

/* ---- sizes ---- */

static int constant_of(Dwarf_Die *die, unsigned int name, int64_t *value)
{
	Dwarf_Attribute attribute;
	Dwarf_Sword number;
	Dwarf_Word word;

	if (!dwarf_attr_integrate(die, name, &attribute))
		return -ENOENT;
	switch (dwarf_whatform(&attribute)) {
	case DW_FORM_data1: /* of no sign, and libdw gives it one */
	case DW_FORM_data2:
	case DW_FORM_data4:
	case DW_FORM_data8:
	case DW_FORM_udata:
		if (dwarf_formudata(&attribute, &word))
			return -WM_E_WATCH_DAMAGED;
		*value = (int64_t)word;
		return 0;
	case DW_FORM_sdata:
	case DW_FORM_implicit_const:
		if (dwarf_formsdata(&attribute, &number))
			return -WM_E_WATCH_DAMAGED;
		*value = number;
		return 0;
	default: /* computed when the program runs */
		return -WM_E_NO_DEBUG;
	}
}

/* One dimension: its first index and its count; UINT64_MAX: unknown. */
static int subrange_read(Dwarf_Die *subrange, int64_t *lowest, uint64_t *count)
{
	int64_t value, default_lowest = 0;
	Dwarf_Die unit;
	int err;

	*count = UINT64_MAX;
	if (!dwarf_diecu(subrange, &unit, NULL, NULL) ||
	    dwarf_default_lower_bound(dwarf_srclang(&unit), &default_lowest))
		default_lowest = 0;
	err = constant_of(subrange, DW_AT_lower_bound, lowest);
	if (err == -ENOENT)
		*lowest = default_lowest;
	else if (err)
		return err;
	err = constant_of(subrange, DW_AT_count, &value);
	if (!err && value >= 0) {
		*count = (uint64_t)value;
		return 0;
	}
	if (err && err != -ENOENT)
		return err;
	err = constant_of(subrange, DW_AT_upper_bound, &value);
	if (err)
		return err == -ENOENT ? 0 : err;
	/* GCC writes the bound of int a[0] as -1, in as many bytes as it likes. */
	if (value < *lowest || value == UINT32_MAX)
		*count = 0;
	else if (__builtin_sub_overflow(value, *lowest, &value))
		return -WM_E_WATCH_DAMAGED;
	else
		*count = (uint64_t)value + 1;
	return 0;
}

/* The dimension behind those that are gone. -ENOENT: there is no more. */
static int dimension_find(const struct declared *array, unsigned int dimension, Dwarf_Die *found)
{
	Dwarf_Die die = array->die, child;
	unsigned int at = 0;
	Dwarf_Off last = 0;

	if (dwarf_child(&die, &child))
		return -ENOENT;
	do {
		int tag = dwarf_tag(&child);

		if (dwarf_dieoffset(&child) <= last)
			return -WM_E_WATCH_DAMAGED;
		last = dwarf_dieoffset(&child);
		if ((tag == DW_TAG_subrange_type || tag == DW_TAG_enumeration_type) &&
		    at++ == dimension) {
			*found = child;
			return 0;
		}
	} while (at < DIMENSIONS_MAX && !dwarf_siblingof(&child, &child));
	return -ENOENT;
}

static int bytes_of(const struct declared *type, unsigned int depth, uint64_t *bytes);

/* Fortran's arrays are by columns where the description says nothing (DWARF 5, 5.5). */
static int is_by_columns(Dwarf_Die *array, int language)
{
	int64_t ordering;

	if (!constant_of(array, DW_AT_ordering, &ordering))
		return ordering == DW_ORD_col_major;
	switch (language) {
	case DW_LANG_Fortran77:
	case DW_LANG_Fortran90:
	case DW_LANG_Fortran95:
	case DW_LANG_Fortran03:
	case DW_LANG_Fortran08:
	case LANGUAGE_FORTRAN18:
		return 1;
	default:
		return 0;
	}
}

int declared_is_by_columns(const struct declared *array)
{
	Dwarf_Die die = array->die, second;

	return is_by_columns(&die, array->language) && !dimension_find(array, 1, &second);
}

/* Its elements are elsewhere, or not beside each other, as a descriptor says when it runs. */
static int has_descriptor(Dwarf_Die *array, Dwarf_Die *subrange)
{
	return dwarf_hasattr(array, DW_AT_data_location) || dwarf_hasattr(array, DW_AT_allocated) ||
	       dwarf_hasattr(array, DW_AT_associated) ||
	       dwarf_hasattr(subrange, DW_AT_byte_stride) ||
	       dwarf_hasattr(subrange, DW_AT_bit_stride);
}

/* By columns, what differs by one in a dimension is apart by all elements of those before it. */
static int column_bytes(const struct declared *array, unsigned int depth, uint64_t *bytes)
{
	struct declared element = { .language = array->language };
	Dwarf_Die die = array->die, subrange;
	int64_t lowest;
	uint64_t count;
	int err = declared_of(&die, &element);

	err = err ? -WM_E_WATCH_DAMAGED : bytes_of(&element, depth + 1, bytes);
	for (unsigned int i = 0; i < array->dimension && !err; i++) {
		err = dimension_find(array, i, &subrange) ? -WM_E_WATCH_DAMAGED : 0;
		err = err ? err : subrange_read(&subrange, &lowest, &count);
		if (!err && count == UINT64_MAX)
			err = -WM_E_NO_DEBUG;
		if (!err && __builtin_mul_overflow(*bytes, count, bytes))
			err = -WM_E_WATCH_DAMAGED;
	}
	return err;
}

static int element_of(const struct declared *array, unsigned int depth, struct declared *element,
		      uint64_t *bytes, int64_t *lowest, uint64_t *count)
{
	Dwarf_Die die = array->die, subrange, next;
	int err;

	if (dwarf_hasattr(&die, DW_AT_byte_stride) || dwarf_hasattr(&die, DW_AT_bit_stride))
		return -WM_E_NO_DEBUG;
	err = dimension_find(array, array->dimension, &subrange);
	if (err)
		return -WM_E_WATCH_DAMAGED;
	if (has_descriptor(&die, &subrange))
		return -WM_E_WATCH_TYPE;
	err = subrange_read(&subrange, lowest, count);
	if (err)
		return err;
	if (!dimension_find(array, array->dimension + 1, &next)) {
		*element = *array;
		element->dimension++;
	} else {
		element->language = array->language;
		err = declared_of(&die, element);
	}
	if (!err && is_by_columns(&die, array->language))
		return column_bytes(array, depth, bytes);
	return err ? -WM_E_WATCH_DAMAGED : bytes_of(element, depth + 1, bytes);
}

static int array_bytes(const struct declared *type, unsigned int depth, uint64_t *bytes)
{
	struct declared element, last = *type;
	Dwarf_Die next;
	uint64_t one, count;
	int64_t lowest;
	int err;

	/* by columns, an array without its first dimension is not in one piece */
	if (declared_is_by_columns(type)) {
		if (type->dimension)
			return -WM_E_WATCH_TYPE;
		while (!dimension_find(&last, last.dimension + 1, &next))
			last.dimension++;
	}
	err = element_of(&last, depth, &element, &one, &lowest, &count);
	if (err)
		return err;
	if (count == UINT64_MAX)
		return -WM_E_NO_DEBUG;
	return __builtin_mul_overflow(one, count, bytes) ? -WM_E_WATCH_DAMAGED : 0;
}

static int bytes_of(const struct declared *type, unsigned int depth, uint64_t *bytes)
{
	struct declared peeled = *type;
	int64_t value;
	int err;

	if (depth > DIMENSIONS_MAX)
		return -WM_E_WATCH_DAMAGED;
	err = declared_peel(&peeled, NULL);
	if (err)
		return err;
	err = peeled.dimension ? -ENOENT : constant_of(&peeled.die, DW_AT_byte_size, &value);
	if (!err) {
		*bytes = (uint64_t)value;
		return 0;
	}
	switch (dwarf_tag(&peeled.die)) {
	case DW_TAG_array_type:
		return array_bytes(&peeled, depth, bytes);
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
		*bytes = 8;
		return 0;
	case DW_TAG_subroutine_type:
		return -ENOENT;
	case DW_TAG_ptr_to_member_type: /* an offset; of a function's, two words */
		err = declared_of(&peeled.die, &peeled);
		*bytes = !err && dwarf_tag(&peeled.die) == DW_TAG_subroutine_type ? 16 : 8;
		return err;
	case DW_TAG_enumeration_type:
		err = declared_of(&peeled.die, &peeled);
		return err ? -WM_E_NO_DEBUG : bytes_of(&peeled, depth + 1, bytes);
	default:
		return err == -ENOENT ? -WM_E_NO_DEBUG : err;
	}
}

int declared_bytes(const struct declared *type, uint64_t *bytes)
{
	return bytes_of(type, 0, bytes);
}

int declared_element(const struct declared *array, struct declared *element, uint64_t *bytes,
		     int64_t *lowest, uint64_t *count)
{
	return element_of(array, 0, element, bytes, lowest, count);
}

/* ---- members ---- */

static int op_constant(const Dwarf_Op *op, uint64_t *number)
{
	switch (op->atom) {
	case DW_OP_lit0 ... DW_OP_lit31:
		*number = op->atom - DW_OP_lit0;
		return 1;
	case DW_OP_const1u:
	case DW_OP_const2u:
	case DW_OP_const4u:
	case DW_OP_constu:
		*number = op->number;
		return 1;
	default:
		return 0;
	}
}

/*
 * A virtual base class, as compilers for the Itanium C++ ABI describe it: object + the word so far
 * below the virtual table that the object begins with. Returns how far; 0: another computation.
 */
static uint64_t virtual_base(const Dwarf_Op *ops, size_t count)
{
	uint64_t below;

	if (count == 6 && ops[0].atom == DW_OP_dup && ops[1].atom == DW_OP_deref &&
	    op_constant(&ops[2], &below) && ops[3].atom == DW_OP_minus &&
	    ops[4].atom == DW_OP_deref && ops[5].atom == DW_OP_plus)
		return below;
	return 0;
}

/* 0, or -WM_E_WATCH_SPLIT: an unknown computation. */
static int offset_read(Dwarf_Die *die, struct declared_member *member)
{
	Dwarf_Attribute attribute;
	Dwarf_Word word;
	Dwarf_Op *ops;
	size_t count;

	if (!dwarf_attr(die, DW_AT_data_member_location, &attribute)) {
		member->is_virtual = dwarf_hasattr(die, DW_AT_virtuality);
		return 0;
	}
	if (!dwarf_formudata(&attribute, &word)) {
		member->offset = word;
		return 0;
	}
	if (dwarf_getlocation(&attribute, &ops, &count))
		return -WM_E_WATCH_SPLIT;
	if (count == 1 && ops[0].atom == DW_OP_plus_uconst) {
		member->offset = ops[0].number;
		return 0;
	}
	member->is_virtual = member->is_base;
	member->below = virtual_base(ops, count);
	return member->is_base ? 0 : -WM_E_WATCH_SPLIT;
}

/*
 * The older form counts bits from the highest one of the storage unit, the newer from the record's
 * beginning.
 */
static int bits_read(Dwarf_Die *die, struct declared_member *member)
{
	int64_t bits, first, storage;
	uint64_t bytes;

	member->bits = 0;
	if (constant_of(die, DW_AT_bit_size, &bits))
		return 0;
	if (bits < 1 || bits > 64)
		return -WM_E_WATCH_DAMAGED;
	if (!constant_of(die, DW_AT_data_bit_offset, &first)) {
		if (first < 0)
			return -WM_E_WATCH_DAMAGED;
	} else if (!constant_of(die, DW_AT_bit_offset, &first)) {
		if (constant_of(die, DW_AT_byte_size, &storage)) {
			if (declared_bytes(&member->type, &bytes) || bytes > 16)
				return -WM_E_WATCH_DAMAGED;
			storage = (int64_t)bytes;
		}
		if (storage < 1 || storage > 16 || first > storage * 8 || first < -256)
			return -WM_E_WATCH_DAMAGED;
		first = storage * 8 - first - bits;
		if (first < 0)
			return -WM_E_WATCH_DAMAGED;
	} else {
		first = 0;
	}
	member->offset += (uint64_t)first / 8;
	member->bit = (unsigned int)(first % 8);
	member->bits = (unsigned int)bits;
	return 0;
}

static int member_read(Dwarf_Die *die, int language, struct declared_member *member)
{
	int err;

	*member = (struct declared_member){ .name = dwarf_diename(die),
					    .is_base = dwarf_tag(die) == DW_TAG_inheritance };
	/* DWARF 5 calls static members variables. */
	member->is_static = dwarf_tag(die) == DW_TAG_variable ||
			    (!member->is_base && dwarf_hasattr(die, DW_AT_external));
	member->type.language = language;
	err = declared_of(die, &member->type);
	if (err)
		return -WM_E_WATCH_DAMAGED;
	if (member->is_static)
		return 0;
	err = offset_read(die, member);
	return err ? err : bits_read(die, member);
}

int declared_members(const struct declared *record,
		     int (*visit)(const struct declared_member *member, void *data), void *data)
{
	struct declared_member member;
	Dwarf_Die die = record->die, child;
	Dwarf_Off last = 0;
	int err = 0;

	if (dwarf_child(&die, &child))
		return 0;
	for (unsigned int i = 0; i < DECLARED_MEMBERS_MAX; i++) {
		int tag = dwarf_tag(&child);

		if (dwarf_dieoffset(&child) <= last)
			return -WM_E_WATCH_DAMAGED;
		last = dwarf_dieoffset(&child);
		if (tag == DW_TAG_inheritance || tag == DW_TAG_member || tag == DW_TAG_variable) {
			err = member_read(&child, record->language, &member);
			if (!err)
				err = visit(&member, data);
			if (err)
				return err;
		}
		if (dwarf_siblingof(&child, &child))
			return 0;
	}
	return -WM_E_WATCH_DAMAGED;
}
