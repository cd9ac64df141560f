/* SPDX-License-Identifier: MIT */
#include "target/code/parameter.h"

#include "base/integer_type.h"
#include "target/code/dwarf.h"
#include "target/code/enumerator.h"

#include <ctype.h>
#include <demangle.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>

#define XMM0 17 /* in DWARF's numbers */

/*
 * How the System V psABI for x86-64 passes values of a type: its section "Parameter Passing", and
 * for C++ the Itanium ABI's rule that what isn't trivial goes by reference.
 */

enum passing_class {
	CLASS_NONE,
	CLASS_INTEGER,
	CLASS_SSE,
	CLASS_SSE_UP,
	CLASS_X87,
	CLASS_X87_UP,
	CLASS_MEMORY,
};

/* What a type of uncertain passing may use, or not: a mask. */
enum passing_doubt {
	DOUBT_INTEGERS = 1,
	DOUBT_VECTORS = 2,
	DOUBT_STACK = 4,
	DOUBT_ALL = 7,
};

#define PASSING_MEMBERS_MAX 16

/* A member of a structure that a field can hold; of an inner structure too. */
struct passing_member {
	char name[48]; /* what follows the structure's: ".x", ".inner.y" */
	uint8_t offset, bytes, type;
	const struct enumeration *names;
};

struct passing {
	uint64_t bytes;
	uint64_t alignment;
	/* of its eightbytes; CLASS_MEMORY for all of what has more */
	enum passing_class classes[2];
	int is_reference;    /* what is passed is the address of a copy */
	unsigned int doubts; /* debug information says too little about these, or is damaged */
	uint8_t type;	     /* WM_TYPE_*; 0: no value that a field can hold */
	const struct enumeration *names; /* of its values; NULL: no enumeration */
	/* None of what has more than 16 bytes; arrays and bit-fields are left out. */
	unsigned int member_count;
	struct passing_member members[PASSING_MEMBERS_MAX];
};

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

/*
 * Find out how a type is passed. Takes any DIE; one that is not a type's is uncertain. The names of
 * values live as long as `enumerations`.
 */
static void passing_of(Dwarf_Die *type, struct code_enumerations *enumerations,
		       struct passing *passing)
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

/* How many integer and vector registers an argument takes; both 0: on the stack, or nowhere. */
static void passing_registers(const struct passing *passing, unsigned int *integers,
			      unsigned int *vectors)
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

enum trust {
	TRUST_NOBODY, /* assembler: there are no parameters, only registers */
	TRUST_ABI,
	TRUST_SCALARS, /* the ABI up to the first aggregate: Rust */
	TRUST_LISTS,   /* location lists alone */
};

/* One parameter: where the ABI has its eightbytes, and where the compiler says it is. */
struct parameter {
	char name[64];
	struct passing passing;
	struct code_operand by_abi[2], by_list;
	int has_abi, has_list;
	unsigned int described; /* mask of eightbytes: LLVM's callers pass no others */
};

struct call {
	struct code_dwarf *dwarf;
	uint64_t address;
	enum trust trust;
	int needs_proof; /* that a parameter is there still */
	int is_of_gcc;
	int is_unprototyped, is_fortran;
	unsigned int integers, vectors; /* registers taken so far */
	uint64_t stack;			/* bytes of the arguments there */
	unsigned int doubts; /* enum passing_doubt: which of the three aren't known any more */
	unsigned int count;
	struct parameter *all; /* CODE_VALUES_MAX */
};

static enum trust language_trust(Dwarf_Die *function, int *is_c, int *is_fortran)
{
	Dwarf_Die unit;

	*is_c = *is_fortran = 0;
	if (!dwarf_diecu(function, &unit, NULL, NULL))
		return TRUST_LISTS;
	switch (dwarf_srclang(&unit)) {
	case DW_LANG_C89:
	case DW_LANG_C:
	case DW_LANG_C99:
	case DW_LANG_C11:
	case 0x2c: /* C17 */
	case 0x3e: /* C23 */
		*is_c = 1;
		return TRUST_ABI;
	case DW_LANG_C_plus_plus:
	case DW_LANG_C_plus_plus_03:
	case DW_LANG_C_plus_plus_11:
	case DW_LANG_C_plus_plus_14:
	case 0x2b: /* C++17 */
	case 0x2e: /* C++20 */
	case 0x3a: /* C++23 */
	case DW_LANG_ObjC:
	case DW_LANG_ObjC_plus_plus:
		return TRUST_ABI;
	case DW_LANG_Fortran77:
	case DW_LANG_Fortran90:
	case DW_LANG_Fortran95:
	case DW_LANG_Fortran03:
	case DW_LANG_Fortran08:
		*is_fortran = 1;
		return TRUST_ABI;
	case DW_LANG_Mips_Assembler:
		return TRUST_NOBODY;
	case DW_LANG_Rust:
		return TRUST_SCALARS;
	default:
		return TRUST_LISTS;
	}
}

/* Copies that were made with other parameters, or without a result, have it in their names. */
static int is_changed_copy(const char *name)
{
	return strstr(name, ".isra") || strstr(name, ".constprop") || strstr(name, ".part");
}

static int is_changed(Dwarf_Die *function, const char *name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word convention;

	if (is_changed_copy(name))
		return 1;
	return dwarf_attr_integrate(function, DW_AT_calling_convention, &attribute) &&
	       !dwarf_formudata(&attribute, &convention) && convention != DW_CC_normal;
}

enum location {
	LOCATION_NONE,	/* no location covers the first instruction */
	LOCATION_OTHER, /* there is a location, of a kind not known here */
	LOCATION_REGISTER,
	LOCATION_FRAME,	  /* in the function's frame, once it has one */
	LOCATION_POINTED, /* in memory that a register or a word of the frame points to */
};

static int is_argument_register(unsigned int kind, uint64_t reg)
{
	if (kind == OPERAND_VECTOR)
		return reg < 8;
	return reg == 5 || reg == 4 || reg == 1 || reg == 2 || reg == 8 || reg == 9;
}

/* What an expression of one step names. */
static enum location read_expression(const Dwarf_Op *op, struct code_operand *operand)
{
	uint64_t reg;

	if (op->atom == DW_OP_fbreg)
		return LOCATION_FRAME;
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31 && !op->number)
		return LOCATION_POINTED;
	if (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31)
		reg = op->atom - DW_OP_reg0;
	else if (op->atom == DW_OP_regx)
		reg = op->number;
	else
		return LOCATION_OTHER;
	*operand = (struct code_operand){ .kind = OPERAND_REGISTER,
					  .bytes = 8,
					  .index = OPERAND_NONE };
	if (reg >= XMM0 && reg < XMM0 + 16) {
		operand->kind = OPERAND_VECTOR;
		reg -= XMM0;
	} else if (reg > 15) {
		return LOCATION_OTHER;
	}
	operand->reg = (uint8_t)reg;
	return LOCATION_REGISTER;
}

/* Which eightbytes an expression describes, in pieces or as a whole. */
static unsigned int eightbytes_of(const Dwarf_Op *ops, size_t count)
{
	uint64_t at = 0;
	unsigned int described = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t bytes = ops[i].number;

		if (ops[i].atom == DW_OP_bit_piece)
			return 0;
		if (ops[i].atom != DW_OP_piece)
			continue;
		if (!bytes || bytes > 16)
			return 0;
		if (i && ops[i - 1].atom != DW_OP_piece) /* an empty one: no value */
			described |= (at < 8 ? 1u : 0) | (at + bytes > 8 ? 2u : 0);
		at += bytes;
	}
	return at ? described : 3;
}

/* Where a parameter is at the function's first instruction, by the compiler's own words. */
static enum location location_of(const struct call *call, Dwarf_Die *parameter,
				 struct code_operand *operand, unsigned int *described)
{
	enum location location;
	Dwarf_Attribute attribute;
	size_t count;
	Dwarf_Op *op;

	if (!dwarf_attr(parameter, DW_AT_location, &attribute) ||
	    dwarf_getlocation_addr(&attribute, call->address - (uint64_t)call->dwarf->bias, &op,
				   &count, 1) != 1)
		return LOCATION_NONE;
	if (count == 2 && op[0].atom == DW_OP_fbreg && op[1].atom == DW_OP_deref)
		return LOCATION_POINTED;
	if (count != 1) {
		*described = eightbytes_of(op, count);
		return LOCATION_OTHER;
	}
	location = read_expression(op, operand);
	/*
	 * A single expression for the whole function describes it behind its prologue. A value that
	 * is always in an argument register was there at the first instruction, too.
	 */
	if (location == LOCATION_REGISTER && code_dwarf_is_expression(&attribute) &&
	    !is_argument_register(operand->kind, operand->reg))
		return LOCATION_OTHER;
	return location;
}

static void place_on_stack(struct call *call, struct parameter *parameter)
{
	const struct passing *passing = &parameter->passing;

	/* Before LLVM 18 a pair of eightbytes could be torn apart, or lie there unaligned. */
	if (passing->alignment > 8 && !call->is_of_gcc && passing->classes[0] == CLASS_INTEGER)
		call->doubts |= DOUBT_INTEGERS | DOUBT_STACK;
	if (call->doubts & DOUBT_STACK)
		return;
	if (passing->alignment > 8)
		call->stack = (call->stack + passing->alignment - 1) & ~(passing->alignment - 1);
	parameter->has_abi = 1;
	parameter->by_abi[0] = (struct code_operand){
		.kind = OPERAND_MEMORY,
		.bytes = 8,
		.reg = 7,
		.index = OPERAND_NONE,
		.scale = 1,
		.displacement = 8 + (int64_t)call->stack, /* behind the return address */
	};
	call->stack += (passing->bytes + 7) & ~7ull;
}

/* Give each eightbyte the next register of its class; what is padding alone takes none. */
static void take_registers(const struct passing *passing, const uint8_t *registers,
			   unsigned int *integers, unsigned int *vectors,
			   struct code_operand *eightbytes)
{
	for (int i = 0; i < 2; i++) {
		int is_integer = passing->classes[i] == CLASS_INTEGER;

		if (!is_integer && passing->classes[i] != CLASS_SSE)
			continue;
		eightbytes[i] = (struct code_operand){
			.kind = is_integer ? OPERAND_REGISTER : OPERAND_VECTOR,
			.bytes = 8,
			.reg = is_integer ? registers[(*integers)++] : (uint8_t)(*vectors)++,
			.index = OPERAND_NONE,
		};
	}
}

/*
 * Give an argument its place, as the psABI does. What would take of what isn't known may take of
 * the rest, or leave it alone, and neither is known then.
 */
static void place(struct call *call, struct parameter *parameter)
{
	static const uint8_t arguments[] = { 5, 4, 1, 2, 8, 9 };
	const struct passing *passing = &parameter->passing;
	unsigned int integers, vectors, needs;

	passing_registers(passing, &integers, &vectors);
	call->doubts |= passing->doubts;
	if (passing->doubts ||
	    (passing->classes[0] == CLASS_NONE && passing->classes[1] == CLASS_NONE))
		return;
	needs = (integers ? DOUBT_INTEGERS : 0u) | (vectors ? DOUBT_VECTORS : 0u);
	if (call->doubts & needs) {
		call->doubts |= needs | DOUBT_STACK;
		return;
	}
	if (!needs || call->integers + integers > 6 || call->vectors + vectors > 8) {
		place_on_stack(call, parameter);
		return;
	}
	parameter->has_abi = 1;
	take_registers(passing, arguments, &call->integers, &call->vectors, parameter->by_abi);
}

static int is_aggregate(const struct passing *passing)
{
	return !passing->type;
}

static int is_unprototyped_float(const struct call *call, const struct passing *passing)
{
	return call->is_unprototyped && passing->type == WM_TYPE_F32;
}

/* A file's own bytes: no quote, comma or newline may come into a list of names, or a trace. */
static void name_clean(char *name)
{
	for (; *name; name++)
		if (!(*name & 0x80) && !isalnum((unsigned char)*name) && !strchr("_.$", *name))
			*name = '_';
}

/* Type and name from `from`, location from `place_of`: an inline function's copies differ. */
static void parameter_take(struct call *call, Dwarf_Die *from, Dwarf_Die *place_of)
{
	static const struct passing reference = {
		.bytes = 8, .alignment = 8, .classes = { CLASS_INTEGER }, .type = WM_TYPE_PTR
	};
	struct parameter *parameter = &call->all[call->count++];
	int is_found;
	const char *name = dwarf_diename(from);
	enum location location = LOCATION_NONE;
	Dwarf_Attribute attribute;
	Dwarf_Die type;

	*parameter = (struct parameter){ .passing.doubts = DOUBT_ALL, .described = 3 };
	if (name)
		snprintf(parameter->name, sizeof(parameter->name), "%.63s", name);
	else
		snprintf(parameter->name, sizeof(parameter->name), "arg%u", call->count);
	name_clean(parameter->name);
	if (dwarf_attr_integrate(from, DW_AT_type, &attribute) &&
	    dwarf_formref_die(&attribute, &type))
		passing_of(&type, &call->dwarf->enumerations, &parameter->passing);
	if (call->trust == TRUST_SCALARS && is_aggregate(&parameter->passing))
		call->trust = TRUST_LISTS;
	if (place_of)
		location = location_of(call, place_of, &parameter->by_list, &parameter->described);
	parameter->has_list = location == LOCATION_REGISTER;
	is_found = location == LOCATION_REGISTER || location == LOCATION_FRAME;
	if (call->needs_proof && !is_found)
		call->trust = TRUST_LISTS;
	/* Fortran's types don't say which arguments come by reference. */
	if (call->is_fortran && location == LOCATION_POINTED)
		parameter->passing = reference;
	else if (call->is_fortran && !is_found)
		parameter->passing.doubts = DOUBT_ALL;
	if (call->trust != TRUST_LISTS)
		place(call, parameter);
	/*
	 * LLVM's callers in the same unit leave anything there for one that isn't used, and for an
	 * eightbyte that isn't. A float without a prototype comes as a double.
	 */
	if ((!call->is_of_gcc && location == LOCATION_NONE) ||
	    is_unprototyped_float(call, &parameter->passing))
		parameter->has_abi = 0;
	if (call->is_of_gcc)
		parameter->described = 3;
}

/*
 * GCC's constructors and destructors come in variants. Only the variant for a part of a larger
 * object gets the table of virtual bases; no variant gets the flag. The abstract one has both.
 */
static int is_of_other_variant(struct call *call, Dwarf_Die *function, Dwarf_Die *parameter)
{
	const char *name = dwarf_diename(parameter), *linkage;
	Dwarf_Attribute attribute;

	if (!name || !dwarf_hasattr(parameter, DW_AT_artificial))
		return 0;
	if (!strcmp(name, "__in_chrg"))
		return 1;
	if (strcmp(name, "__vtt_parm"))
		return 0;
	linkage = dwarf_attr(function, DW_AT_linkage_name, &attribute)
			  ? dwarf_formstring(&attribute)
			  : NULL;
	if (linkage && (is_gnu_v3_mangled_ctor(linkage) == gnu_v3_complete_object_ctor ||
			is_gnu_v3_mangled_dtor(linkage) == gnu_v3_complete_object_dtor ||
			is_gnu_v3_mangled_dtor(linkage) == gnu_v3_deleting_dtor))
		return 1;
	call->trust = TRUST_LISTS;
	return 1;
}

static void parameters_take(struct call *call, Dwarf_Die *function)
{
	Dwarf_Die origin, child, concrete;
	Dwarf_Attribute attribute;
	int is_copy = dwarf_attr(function, DW_AT_abstract_origin, &attribute) &&
		      dwarf_formref_die(&attribute, &origin);

	if (dwarf_child(is_copy ? &origin : function, &child))
		return;
	do {
		if (dwarf_tag(&child) != DW_TAG_formal_parameter)
			continue;
		if (!is_copy)
			parameter_take(call, &child, &child);
		else if (!code_dwarf_concrete(function, &child, &concrete) &&
			 dwarf_tag(&concrete) == DW_TAG_formal_parameter)
			parameter_take(call, &child, &concrete);
		else if (!is_of_other_variant(call, function, &child))
			parameter_take(call, &child, NULL);
	} while (call->count < CODE_VALUES_MAX && !dwarf_siblingof(&child, &child));
}

/*
 * Whether the compiler has a parameter in another register than the ABI: then the ABI is not kept.
 */
static int is_contradicted(const struct call *call)
{
	for (unsigned int i = 0; i < call->count; i++) {
		const struct parameter *parameter = &call->all[i];

		if (parameter->has_abi && parameter->has_list &&
		    (parameter->by_abi[0].kind != parameter->by_list.kind ||
		     parameter->by_abi[0].reg != parameter->by_list.reg))
			return 1;
	}
	return 0;
}

/*
 * A member's field, by where its structure's eightbytes are; 0 where there is no room for its name.
 */
static int member_field(struct code_field *field, const char *name,
			const struct code_operand *eightbytes, const struct passing_member *member)
{
	int is_memory = eightbytes[0].kind == OPERAND_MEMORY;

	if (strlen(name) + strlen(member->name) >= sizeof(field->name))
		return 0;
	*field = (struct code_field){ .type = member->type, .names = member->names };
	strcpy(stpcpy(field->name, name), member->name);
	name_clean(field->name);
	field->from = eightbytes[is_memory ? 0 : member->offset / 8];
	field->from.bytes = member->bytes;
	field->from.displacement += is_memory ? member->offset : member->offset % 8;
	return 1;
}

/* A structure's members follow it, which has no value itself. */
static void members_fill(struct code_values *values, const struct parameter *parameter)
{
	uint8_t position = values->positions[values->count - 1];

	for (unsigned int i = 0; i < parameter->passing.member_count; i++) {
		const struct passing_member *member = &parameter->passing.members[i];

		if (!(parameter->described >> member->offset / 8 & 1) ||
		    values->count == CODE_VALUES_MAX ||
		    !member_field(&values->all[values->count], parameter->name, parameter->by_abi,
				  member))
			continue;
		values->positions[values->count++] = position;
	}
}

static void fields_fill(const struct call *call, struct code_values *values, int is_regular)
{
	for (unsigned int i = 0; i < call->count && values->count < CODE_VALUES_MAX; i++) {
		const struct parameter *parameter = &call->all[i];
		unsigned int at = values->count++;
		struct code_field *field = &values->all[at];

		*field = (struct code_field){ 0 };
		strcpy(field->name, parameter->name);
		values->positions[at] = (uint8_t)(i + 1);
		if (!parameter->passing.type) {
			if (!parameter->passing.doubts && !parameter->passing.member_count)
				values->lost_errs[at] = -WM_E_PARAMETER_TYPE;
			else if (is_regular && parameter->has_abi)
				members_fill(values, parameter);
			continue;
		}
		if (parameter->has_list)
			field->from = parameter->by_list;
		else if (is_regular && parameter->has_abi)
			field->from = parameter->by_abi[0];
		else
			continue;
		field->from.bytes = (uint8_t)(parameter->passing.bytes);
		field->type = parameter->passing.type;
		field->names = parameter->passing.names;
	}
}

/* The result's fields; what comes back in %st or in memory has none. */
static void returns_fill(struct code_parameters *parameters, const struct passing *passing)
{
	static const uint8_t results[] = { 0, 1 }; /* rax, rdx */
	struct passing_member whole = { .bytes = (uint8_t)passing->bytes,
					.type = passing->type,
					.names = passing->names };
	const struct passing_member *members = passing->type ? &whole : passing->members;
	unsigned int count = passing->type ? 1 : passing->member_count;
	unsigned int integers = 0, vectors = 0;
	struct code_operand eightbytes[2] = { 0 };

	if (passing->classes[0] == CLASS_MEMORY || passing->classes[0] == CLASS_X87)
		return;
	take_registers(passing, results, &integers, &vectors, eightbytes);
	for (unsigned int i = 0; i < count; i++)
		parameters->return_count += member_field(
			&parameters->returns[parameters->return_count], "ret", eightbytes,
			&members[i]);
}

/* The result, and the register that a hidden argument takes where the result goes to memory. */
static void result_take(struct call *call, struct code_parameters *parameters, Dwarf_Die *function)
{
	Dwarf_Attribute attribute;
	struct passing passing;
	Dwarf_Die type;

	if (!dwarf_attr_integrate(function, DW_AT_type, &attribute))
		return;
	parameters->has_result = 1;
	if (!dwarf_formref_die(&attribute, &type)) {
		call->trust = TRUST_LISTS;
		return;
	}
	passing_of(&type, &call->dwarf->enumerations, &passing);
	if (passing.doubts || (call->trust == TRUST_SCALARS && is_aggregate(&passing)))
		call->trust = TRUST_LISTS;
	if (passing.is_reference || passing.classes[0] == CLASS_MEMORY)
		call->integers = 1;
	if (call->trust != TRUST_LISTS)
		returns_fill(parameters, &passing);
}

/* Go passes arguments in its own registers; its functions have their package before a dot. */
static int is_go(const struct code_file *file, const char *name)
{
	return strchr(name, '.') && (code_file_section(file, ".gopclntab") ||
				     code_file_section(file, ".note.go.buildid"));
}

/* GCC calls functions that it changed by other names. */
static int is_of_gcc(Dwarf_Die *function)
{
	Dwarf_Attribute attribute;
	const char *producer;
	Dwarf_Die unit;

	if (!dwarf_diecu(function, &unit, NULL, NULL) ||
	    !dwarf_attr(&unit, DW_AT_producer, &attribute))
		return 0;
	producer = dwarf_formstring(&attribute);
	return producer && !strncmp(producer, "GNU ", 4);
}

/* Whether all parameters are in the frame, which is so of what was not optimised. */
static int is_plain(const struct call *call)
{
	for (unsigned int i = 0; i < call->count; i++)
		if (call->all[i].has_list)
			return 0;
	return call->count && call->trust != TRUST_LISTS;
}

int code_parameters_read(struct code_parameters *parameters, struct code_file *file,
			 uint64_t address, const char *name, int is_local)
{
	struct code_dwarf *dwarf = code_dwarf_of(file);
	struct parameter all[CODE_VALUES_MAX]; /* large, and mostly unused: not cleared */
	struct call call = { .dwarf = dwarf, .address = address, .all = all };
	struct code_values *values = &parameters->values;
	struct code_declared declared;
	Dwarf_Die function;
	int is_c;

	*parameters = (struct code_parameters){ .source = "",
						.is_changed_copy = is_changed_copy(name) };
	if (code_dwarf_function(file, address, name, &function))
		return is_go(file, name) ? -WM_E_FOREIGN_CALL : 0;
	code_dwarf_declared(&function, &declared);
	parameters->source = declared.source;
	parameters->line = declared.line;
	parameters->never_returns = dwarf_hasattr_integrate(&function, DW_AT_noreturn);
	call.trust = language_trust(&function, &is_c, &call.is_fortran);
	if (call.trust == TRUST_NOBODY)
		return 0;
	call.is_unprototyped = is_c && !dwarf_hasattr_integrate(&function, DW_AT_prototyped);
	call.is_of_gcc = is_of_gcc(&function);
	call.needs_proof = is_local && !call.is_of_gcc;
	if (is_changed(&function, name))
		call.trust = TRUST_LISTS;
	values->is_told = values->with_registers = 1;
	values->lost_err = -WM_E_PARAMETER_LOST;
	result_take(&call, parameters, &function);
	parameters_take(&call, &function);
	/* The compiler drops a result that no caller takes, and does not record that. */
	if (call.needs_proof && !is_plain(&call))
		parameters->return_count = 0;
	fields_fill(&call, values, !is_contradicted(&call));
	return 1;
}
