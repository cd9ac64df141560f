/* SPDX-License-Identifier: MIT */
#include "target/code/passing.h"

#include "base/integer_type.h"

#include <dwarf.h>
#include <string.h>
#include <waymark/marker.h>

#define ENCODING_COMPLEX_INTEGER DW_ATE_lo_user /* GCC's and LLVM's */
#define DEPTH_MAX 32
#define VISITS_MAX                                                                                 \
	4096 /* of types, for one question: hostile ones refer to each other without end */

struct walk {
	struct passing *passing;
	struct code_enumerations *enumerations;
	unsigned int depth, visits;
	unsigned int hidden; /* not 0: in what is no member of its own, an array */
	char path[48];
};

static void visit(struct walk *walk, Dwarf_Die *type, uint64_t offset);

static uint64_t number_of(Dwarf_Die *die, unsigned int name, uint64_t otherwise)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (!dwarf_attr_integrate(die, name, &attribute) || dwarf_formudata(&attribute, &value))
		return otherwise;
	return value;
}

static int type_of(Dwarf_Die *die, Dwarf_Die *type)
{
	Dwarf_Attribute attribute;

	return dwarf_attr_integrate(die, DW_AT_type, &attribute) &&
	       dwarf_formref_die(&attribute, type);
}

/* Two classes of what shares an eightbyte. */
static enum passing_class merge(enum passing_class a, enum passing_class b)
{
	if (a == b || b == CLASS_NONE)
		return a;
	if (a == CLASS_NONE)
		return b;
	if (a == CLASS_MEMORY || b == CLASS_MEMORY)
		return CLASS_MEMORY;
	if (a == CLASS_INTEGER || b == CLASS_INTEGER)
		return CLASS_INTEGER;
	if (a >= CLASS_X87 || b >= CLASS_X87)
		return CLASS_MEMORY;
	return CLASS_SSE;
}

static void doubt(struct walk *walk)
{
	walk->passing->doubts = DOUBT_ALL;
}

/*
 * In a vector register or on the stack, which takes no other's register; a class's part is its
 * class's matter.
 */
static void doubt_vector(struct walk *walk)
{
	walk->passing->doubts |= walk->depth == 1 ? DOUBT_VECTORS | DOUBT_STACK : DOUBT_ALL;
}

/* A scalar at an offset of the whole. */
static void put(struct walk *walk, uint64_t offset, uint64_t bytes, uint64_t alignment,
		enum passing_class first, enum passing_class second)
{
	struct passing *passing = walk->passing;

	if (alignment > passing->alignment)
		passing->alignment = alignment;
	if (alignment && offset % alignment) /* packed */
		first = second = CLASS_MEMORY;
	if (offset + bytes > 16 || first == CLASS_MEMORY) {
		passing->classes[0] = passing->classes[1] = CLASS_MEMORY;
		return;
	}
	passing->classes[offset / 8] = merge(passing->classes[offset / 8], first);
	if (bytes > 8)
		passing->classes[1] = merge(passing->classes[1], second);
}

static void member_put(struct walk *walk, const char *suffix, uint64_t offset, uint64_t bytes,
		       uint8_t type)
{
	struct passing *passing = walk->passing;
	struct passing_member *member = &passing->members[passing->member_count];

	if (!type || walk->hidden || passing->member_count == PASSING_MEMBERS_MAX ||
	    offset + bytes > 16 || strlen(walk->path) + strlen(suffix) >= sizeof(member->name))
		return;
	strcpy(stpcpy(member->name, walk->path), suffix);
	member->offset = (uint8_t)offset;
	member->bytes = (uint8_t)bytes;
	member->type = type;
	member->names = NULL;
	passing->member_count++;
}

static void put_integer(struct walk *walk, uint64_t offset, uint64_t bytes)
{
	if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8 && bytes != 16)
		doubt(walk);
	else
		put(walk, offset, bytes, bytes, CLASS_INTEGER, CLASS_INTEGER);
}

static void put_float(struct walk *walk, Dwarf_Die *type, uint64_t offset, uint64_t bytes)
{
	const char *name = dwarf_diename(type);

	if (bytes == 2 || bytes == 4 || bytes == 8)
		put(walk, offset, bytes, bytes, CLASS_SSE, CLASS_NONE);
	else if (bytes != 16 || !name)
		doubt_vector(walk);
	else if (!strcmp(name, "long double") || !strcmp(name, "_Float64x"))
		put(walk, offset, 16, 16, CLASS_X87, CLASS_X87_UP);
	else if (strstr(name, "loat128"))
		put(walk, offset, 16, 16, CLASS_SSE, CLASS_SSE_UP);
	else
		doubt_vector(walk);
}

/*
 * Two long doubles come back in %st(0) and %st(1), two of binary128 in memory: of LLVM's both are
 * called "complex".
 */
static void put_wide_complex(struct walk *walk, Dwarf_Die *type, uint64_t offset, uint64_t bytes)
{
	const char *name = dwarf_diename(type);
	struct passing *passing = walk->passing;

	if (walk->depth > 1 || (name && strstr(name, "loat128"))) {
		put(walk, offset, bytes, 16, CLASS_MEMORY, CLASS_MEMORY);
	} else if (name && (strstr(name, "long double") || strstr(name, "loat64x"))) {
		passing->alignment = 16;
		passing->classes[0] = CLASS_X87;
		passing->classes[1] = CLASS_X87_UP;
	} else {
		passing->doubts |= DOUBT_STACK;
	}
}

static void put_complex(struct walk *walk, uint64_t offset, uint64_t bytes,
			enum passing_class class)
{
	if (bytes <= 8) /* both halves in one eightbyte */
		put(walk, offset, bytes, bytes / 2, class, CLASS_NONE);
	else if (bytes == 16)
		put(walk, offset, 16, 8, class, class);
	else
		put(walk, offset, bytes, 16, CLASS_MEMORY, CLASS_MEMORY);
}

static uint8_t float_type(uint64_t bytes)
{
	return bytes == 4 ? WM_TYPE_F32 : bytes == 8 ? WM_TYPE_F64 : 0;
}

static void visit_base(struct walk *walk, Dwarf_Die *type, uint64_t offset, uint64_t bytes)
{
	switch (number_of(type, DW_AT_encoding, 0)) {
	case DW_ATE_address:
	case DW_ATE_boolean:
	case DW_ATE_signed:
	case DW_ATE_signed_char:
	case DW_ATE_unsigned:
	case DW_ATE_unsigned_char:
	case DW_ATE_UTF:
		put_integer(walk, offset, bytes);
		return;
	case DW_ATE_float:
		put_float(walk, type, offset, bytes);
		return;
	case DW_ATE_complex_float:
		if (bytes > 16)
			put_wide_complex(walk, type, offset, bytes);
		else
			put_complex(walk, offset, bytes, CLASS_SSE);
		member_put(walk, ".real", offset, bytes / 2, float_type(bytes / 2));
		member_put(walk, ".imag", offset + bytes / 2, bytes / 2, float_type(bytes / 2));
		return;
	case ENCODING_COMPLEX_INTEGER:
		put_complex(walk, offset, bytes, CLASS_INTEGER);
		return;
	case DW_ATE_decimal_float:
		put(walk, offset, bytes, bytes, bytes > 16 ? CLASS_MEMORY : CLASS_SSE,
		    CLASS_SSE_UP);
		return;
	default:
		doubt(walk);
	}
}

static void visit_array(struct walk *walk, Dwarf_Die *type, uint64_t offset, uint64_t bytes)
{
	Dwarf_Word element_bytes;
	Dwarf_Die element;

	if (dwarf_hasattr(type, DW_AT_GNU_vector)) {
		/* How wider ones are passed depends on the caller's -mavx: DWARF doesn't say. */
		if (bytes == 8 || bytes == 16)
			put(walk, offset, bytes, bytes, CLASS_SSE, CLASS_SSE_UP);
		else if (bytes > 16)
			doubt_vector(walk);
		else
			doubt(walk);
		return;
	}
	if (!type_of(type, &element) || dwarf_aggregate_size(&element, &element_bytes)) {
		doubt(walk);
		return;
	}
	if (!bytes) {
		if (walk->depth == 1) /* a whole argument: Fortran's */
			doubt(walk);
		return;
	}
	walk->hidden++;
	if (!element_bytes || bytes > 16) /* once is enough, for the alignment */
		visit(walk, &element, offset);
	else
		for (uint64_t at = 0; at + element_bytes <= bytes; at += element_bytes)
			visit(walk, &element, offset + at);
	walk->hidden--;
}

/* A member's type; an unnamed one's own members count as the structure's. */
static void visit_named(struct walk *walk, const char *name, Dwarf_Die *type, uint64_t offset)
{
	size_t used = strlen(walk->path);
	unsigned int is_long = name && used + 1 + strlen(name) >= sizeof(walk->path);

	if (name && !is_long)
		strcpy(stpcpy(walk->path + used, "."), name);
	walk->hidden += is_long;
	visit(walk, type, offset);
	walk->hidden -= is_long;
	walk->path[used] = 0;
}

static void visit_member(struct walk *walk, Dwarf_Die *member, uint64_t offset)
{
	uint64_t at = number_of(member, DW_AT_data_member_location, 0);
	uint64_t bits = number_of(member, DW_AT_data_bit_offset, UINT64_MAX);
	Dwarf_Word bytes;
	Dwarf_Die type;

	/* Static ones are no part of it. */
	if (dwarf_hasattr(member, DW_AT_external) || dwarf_hasattr(member, DW_AT_declaration))
		return;
	if (dwarf_hasattr(member, DW_AT_bit_size)) {
		/*
		 * GCC doesn't mind where a packed structure puts a whole inner one of bit-fields,
		 * LLVM does.
		 */
		if (type_of(member, &type) && !dwarf_aggregate_size(&type, &bytes) && bytes &&
		    offset % bytes)
			doubt(walk);
		if (bits != UINT64_MAX)
			at = bits / 8;
		put(walk, offset + at, 1, 1, CLASS_INTEGER, CLASS_NONE);
		return;
	}
	if (!type_of(member, &type) || at > UINT32_MAX)
		doubt(walk);
	else
		visit_named(walk, dwarf_diename(member), &type, offset + at);
}

/* Whether a constructor's first parameter, behind `this`, is a reference to its own class. */
static int is_copier(Dwarf_Die *type, Dwarf_Die *function)
{
	Dwarf_Die child, reference, to;
	int is_first = 1;

	if (dwarf_child(function, &child))
		return 0;
	do {
		if (dwarf_tag(&child) != DW_TAG_formal_parameter)
			continue;
		if (is_first) { /* this */
			is_first = 0;
			continue;
		}
		return type_of(&child, &reference) &&
		       (dwarf_tag(&reference) == DW_TAG_reference_type ||
			dwarf_tag(&reference) == DW_TAG_rvalue_reference_type) &&
		       type_of(&reference, &to) && !dwarf_peel_type(&to, &to) &&
		       dwarf_dieoffset(&to) == dwarf_dieoffset(type);
	} while (!dwarf_siblingof(&child, &child));
	return 0;
}

/*
 * "list" for "list<int>": what its constructors are called. Templates of constructors are called
 * list<...>.
 */
static int is_constructor_name(const char *name, const char *class_name)
{
	size_t bytes = class_name ? strcspn(class_name, "<") : 0;

	return bytes && strlen(name) == bytes && !strncmp(name, class_name, bytes);
}

/*
 * A member function that makes its class nontrivial for calls: a user-provided destructor, or a
 * user-provided copy or move constructor. DWARF 5 and later say whether the user provided it.
 */
static void judge_function(struct walk *walk, Dwarf_Die *type, Dwarf_Die *function)
{
	const char *name = dwarf_diename(function);
	Dwarf_Half version = 0;
	Dwarf_Die unit;

	if (!name || (name[0] != '~' && !(is_constructor_name(name, dwarf_diename(type)) &&
					  is_copier(type, function))))
		return;
	if (number_of(function, DW_AT_defaulted, 0) == DW_DEFAULTED_in_class &&
	    !dwarf_hasattr(function, DW_AT_deleted))
		return; /* its members decide */
	if (!dwarf_cu_die(function->cu, &unit, &version, NULL, NULL, NULL, NULL, NULL) ||
	    version < 5 || dwarf_hasattr(function, DW_AT_deleted))
		doubt(walk);
	walk->passing->is_reference = 1;
}

/*
 * What of a class decides whether it is trivial for calls, where debug information doesn't say so
 * outright.
 */
static void judge(struct walk *walk, Dwarf_Die *type, Dwarf_Die *child)
{
	const char *name = dwarf_diename(child);

	switch (dwarf_tag(child)) {
	case DW_TAG_inheritance:
		if (number_of(child, DW_AT_virtuality, 0))
			walk->passing->is_reference = 1;
		break;
	case DW_TAG_member:
		if (name && !strncmp(name, "_vptr", 5))
			walk->passing->is_reference = 1;
		break;
	case DW_TAG_subprogram:
		judge_function(walk, type, child);
		break;
	default:
		break;
	}
}

static void visit_class(struct walk *walk, Dwarf_Die *type, uint64_t offset, uint64_t bytes)
{
	uint64_t convention = number_of(type, DW_AT_calling_convention, 0);
	struct passing *passing = walk->passing;
	Dwarf_Die child;

	if (dwarf_hasattr(type, DW_AT_declaration)) {
		doubt(walk);
		return;
	}
	if (convention == DW_CC_pass_by_reference)
		passing->is_reference = 1;
	if (bytes > 16)
		passing->classes[0] = passing->classes[1] = CLASS_MEMORY;
	if (number_of(type, DW_AT_alignment, 0) > passing->alignment)
		passing->alignment = number_of(type, DW_AT_alignment, 0);
	if (dwarf_child(type, &child)) {
		if (bytes > 1) /* GCC leaves out the members of a transparent union */
			doubt(walk);
		return;
	}
	do {
		int tag = dwarf_tag(&child);

		if (convention != DW_CC_pass_by_value && convention != DW_CC_pass_by_reference)
			judge(walk, type, &child);
		if (tag == DW_TAG_member || tag == DW_TAG_inheritance)
			visit_member(walk, &child, offset);
		else if (tag == DW_TAG_variant_part) /* Rust's enums */
			doubt(walk);
	} while (!passing->doubts && !dwarf_siblingof(&child, &child));
}

/* Whether an enumeration has negative values: older debug information lacks its type. */
static int is_signed_enum(Dwarf_Die *type)
{
	Dwarf_Die child, under;
	int found = 0;

	if (type_of(type, &under) && !dwarf_peel_type(&under, &under))
		return number_of(&under, DW_AT_encoding, 0) == DW_ATE_signed ||
		       number_of(&under, DW_AT_encoding, 0) == DW_ATE_signed_char;
	if (dwarf_child(type, &child))
		return 0;
	do {
		Dwarf_Attribute attribute;
		Dwarf_Sword value;

		if (dwarf_attr(&child, DW_AT_const_value, &attribute) &&
		    dwarf_whatform(&attribute) != DW_FORM_udata &&
		    !dwarf_formsdata(&attribute, &value))
			found |= value < 0;
	} while (!found && !dwarf_siblingof(&child, &child));
	return found;
}

static uint8_t base_type(Dwarf_Die *type, uint64_t bytes)
{
	const char *name = dwarf_diename(type);
	uint64_t encoding = number_of(type, DW_AT_encoding, 0);

	if (encoding == DW_ATE_float)
		return float_type(bytes);
	if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
		return 0;
	switch (encoding) {
	case DW_ATE_boolean:
		return bytes == 1 ? WM_TYPE_BOOL : integer_type(bytes, 0);
	case DW_ATE_signed_char:
	case DW_ATE_unsigned_char:
		if (name && !strcmp(name, "char"))
			return WM_TYPE_CHAR;
		return encoding == DW_ATE_signed_char ? WM_TYPE_I8 : WM_TYPE_U8;
	case DW_ATE_signed:
		return integer_type(bytes, 1);
	case DW_ATE_unsigned:
	case DW_ATE_UTF:
	case DW_ATE_address:
		return integer_type(bytes, 0);
	default:
		return 0;
	}
}

static uint8_t field_type(Dwarf_Die *type, uint64_t bytes)
{
	Dwarf_Die peeled;

	if (dwarf_peel_type(type, &peeled))
		return 0;
	switch (dwarf_tag(&peeled)) {
	case DW_TAG_base_type:
		return base_type(&peeled, bytes);
	case DW_TAG_enumeration_type:
		return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8
			       ? integer_type(bytes, is_signed_enum(&peeled))
			       : 0;
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
	case DW_TAG_unspecified_type:
		return WM_TYPE_PTR;
	default:
		return 0;
	}
}

static void member_take(struct walk *walk, Dwarf_Die *type, uint64_t offset, uint64_t bytes)
{
	struct passing *passing = walk->passing;
	unsigned int before = passing->member_count;
	uint8_t is = field_type(type, bytes);

	member_put(walk, "", offset, is == WM_TYPE_PTR ? 8 : bytes, is);
	if (passing->member_count > before)
		passing->members[before].names = code_enumeration_of(walk->enumerations, type, is);
}

static void visit(struct walk *walk, Dwarf_Die *type, uint64_t offset)
{
	Dwarf_Die peeled, of;
	Dwarf_Word bytes = 0;

	if (walk->depth >= DEPTH_MAX || walk->visits++ >= VISITS_MAX ||
	    dwarf_peel_type(type, &peeled)) {
		doubt(walk);
		return;
	}
	if (dwarf_aggregate_size(&peeled, &bytes))
		bytes = 0;
	walk->depth++;
	switch (dwarf_tag(&peeled)) {
	case DW_TAG_base_type:
		visit_base(walk, &peeled, offset, bytes);
		break;
	case DW_TAG_enumeration_type:
		put_integer(walk, offset, bytes);
		break;
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
	case DW_TAG_unspecified_type: /* decltype(nullptr) */
		put_integer(walk, offset, 8);
		break;
	case DW_TAG_ptr_to_member_type:
		put_integer(walk, offset, 8);
		if (type_of(&peeled, &of) && dwarf_tag(&of) == DW_TAG_subroutine_type)
			put_integer(walk, offset + 8, 8);
		break;
	case DW_TAG_array_type:
		visit_array(walk, &peeled, offset, bytes);
		break;
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
	case DW_TAG_union_type:
		visit_class(walk, &peeled, offset, bytes);
		break;
	default:
		doubt(walk);
	}
	walk->depth--;
	if (walk->depth)
		member_take(walk, &peeled, offset, bytes);
}

void passing_of(Dwarf_Die *type, struct code_enumerations *enumerations, struct passing *passing)
{
	struct walk walk = { .passing = passing, .enumerations = enumerations };
	Dwarf_Word bytes;
	Dwarf_Die peeled;

	*passing = (struct passing){ 0 };
	visit(&walk, type, 0);
	if (!dwarf_peel_type(type, &peeled) && !dwarf_aggregate_size(&peeled, &bytes))
		passing->bytes = bytes;
	else /* pointers needn't say their size */
		passing->bytes = 8;
	if (passing->is_reference) {
		passing->classes[0] = CLASS_INTEGER;
		passing->classes[1] = CLASS_NONE;
		passing->bytes = passing->alignment = 8;
		passing->member_count = 0;
		return;
	}
	/*
	 * An upper half without its lower one, and all of what has a part in memory, is in memory.
	 */
	if (passing->classes[0] == CLASS_MEMORY || passing->classes[1] == CLASS_MEMORY ||
	    (passing->classes[1] == CLASS_X87_UP && passing->classes[0] != CLASS_X87))
		passing->classes[0] = passing->classes[1] = CLASS_MEMORY;
	if (passing->classes[1] == CLASS_SSE_UP && passing->classes[0] != CLASS_SSE)
		passing->classes[1] = CLASS_SSE;
	passing->type = passing->doubts ? 0 : field_type(type, passing->bytes);
	if (passing->type)
		passing->names = code_enumeration_of(enumerations, type, passing->type);
	if (passing->doubts || passing->type || passing->bytes > 16)
		passing->member_count = 0;
}

void passing_registers(const struct passing *passing, unsigned int *integers, unsigned int *vectors)
{
	*integers = *vectors = 0;
	/* Arguments of these classes are on the stack; only results come in %st. */
	if (passing->classes[0] == CLASS_MEMORY || passing->classes[0] == CLASS_X87)
		return;
	for (int i = 0; i < 2; i++) {
		*integers += passing->classes[i] == CLASS_INTEGER;
		*vectors += passing->classes[i] == CLASS_SSE;
	}
}
