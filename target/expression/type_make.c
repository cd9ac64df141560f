/* SPDX-License-Identifier: MIT */
#include "target/expression/type_make.h"

#include "base/array.h"
#include "base/integer_type.h"
#include "target/expression/scope.h"

#include <dwarf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>

#define ENUMERATORS_MAX 512
#define DESCRIBED_MAX 64 /* bytes of what is looked into: more is no watch's */

/* Nodes are made breadth first, so that children are adjacent. */
struct making {
	struct watch_type *type;
	struct declared *of; /* of each node */
	size_t node_room, of_room, names_room;
	uint8_t *depths;
	size_t depth_room;
	const struct code_file *file;
	size_t parent; /* whose children are made */
};

static uint32_t name_add(struct making *making, const char *name)
{
	struct watch_type *type = making->type;
	size_t bytes = name ? strlen(name) + 1 : 0;
	uint32_t at = type->names_bytes;

	if (!bytes || bytes == 1 || at + bytes > WATCH_NAMES_MAX ||
	    array_grow(&type->names, &making->names_room, at + bytes, 1))
		return 0;
	memcpy(type->names + at, name, bytes);
	type->names_bytes += (uint32_t)bytes;
	return at;
}

static int node_add(struct making *making, const struct watch_node *node,
		    const struct declared *declared, unsigned int depth)
{
	struct watch_type *type = making->type;
	size_t count = type->node_count + 1;

	if (array_grow(&type->nodes, &making->node_room, count, sizeof(*type->nodes)) ||
	    array_grow(&making->of, &making->of_room, count, sizeof(*making->of)) ||
	    array_grow(&making->depths, &making->depth_room, count, sizeof(*making->depths)))
		return -ENOMEM;
	making->of[count - 1] = *declared;
	making->depths[count - 1] = (uint8_t)depth;
	type->nodes[count - 1] = *node;
	type->node_count = (uint32_t)count;
	return 0;
}

static uint8_t float_type(uint64_t bytes)
{
	return bytes == 4 ? WM_TYPE_F32 : bytes == 8 ? WM_TYPE_F64 : WM_TYPE_BYTES;
}

/*
 * DWARF has one encoding for all floating point of 16 bytes. Only the type's name distinguishes
 * binary128 from the x87's 10 bytes. These are the names of GCC, LLVM, gfortran, GNAT, GDC, rustc.
 */
static int wide_float(struct watch_node *node, Dwarf_Die *die, const char *name)
{
	static const char *const quads[] = { "loat128", "kind=16", "f128" };
	static const char *const extended[] = { "long double", "loat64x", "__float80", "kind=10",
						"long_long_float" };

	const char *producer = NULL;
	Dwarf_Attribute attribute;
	Dwarf_Die unit;

	if (dwarf_diecu(die, &unit, NULL, NULL) && dwarf_attr(&unit, DW_AT_producer, &attribute))
		producer = dwarf_formstring(&attribute);
	if (producer && strstr(producer, "-mlong-double-128") && strstr(name, "long double"))
		name = quads[0];
	for (size_t i = 0; i < sizeof(quads) / sizeof(*quads); i++)
		if (strstr(name, quads[i])) {
			node->flags |= WATCH_IS_QUAD;
			return 1;
		}
	for (size_t i = 0; i < sizeof(extended) / sizeof(*extended); i++)
		if (strstr(name, extended[i]))
			return 1;
	return !strcmp(name, "real");
}

static void base_fill(struct watch_node *node, Dwarf_Die *die)
{
	const char *name = dwarf_diename(die);
	Dwarf_Attribute attribute;
	Dwarf_Word encoding = 0, order = 0;

	if (dwarf_attr(die, DW_AT_endianity, &attribute))
		dwarf_formudata(&attribute, &order);
	if (order == DW_END_big) /* of scalar_storage_order: no number as it is */
		return;
	if (dwarf_attr(die, DW_AT_encoding, &attribute))
		dwarf_formudata(&attribute, &encoding);
	switch (encoding) {
	case DW_ATE_boolean:
		node->class = WATCH_BOOL;
		node->type = node->bytes == 1 ? WM_TYPE_BOOL : integer_type(node->bytes, 0);
		break;
	case DW_ATE_signed_char:
		node->class = node->bytes == 1 ? WATCH_CHAR : WATCH_SIGNED;
		node->type = node->bytes == 1 ? WM_TYPE_CHAR : integer_type(node->bytes, 1);
		break;
	case DW_ATE_unsigned_char:
	case DW_ATE_UTF:
		node->class = node->bytes <= 4 ? WATCH_UCHAR : WATCH_UNSIGNED;
		node->type = integer_type(node->bytes, 0);
		break;
	case DW_ATE_signed:
		node->class = node->bytes > 16			 ? WATCH_BYTES
			      : name && !strcmp(name, "wchar_t") ? WATCH_UCHAR
								 : WATCH_SIGNED;
		node->type = integer_type(node->bytes, 1);
		break;
	case DW_ATE_unsigned:
	case DW_ATE_address:
		node->class = node->bytes <= 16 ? WATCH_UNSIGNED : WATCH_BYTES;
		node->type = integer_type(node->bytes, 0);
		break;
	case DW_ATE_float:
		node->class = node->bytes == 4 || node->bytes == 8 || node->bytes == 16
				      ? WATCH_FLOAT
				      : WATCH_BYTES;
		node->type = float_type(node->bytes);
		break;
	case DW_ATE_complex_float:
		node->class = node->bytes == 8 || node->bytes == 16 || node->bytes == 32
				      ? WATCH_COMPLEX
				      : WATCH_BYTES;
		break;
	default:
		break;
	}
	if (node->bytes == (node->class == WATCH_COMPLEX ? 32 : 16) &&
	    (node->class == WATCH_FLOAT || node->class == WATCH_COMPLEX) &&
	    !wide_float(node, die, name ? name : ""))
		node->class = WATCH_BYTES;
	/* Of other widths there is no number; a bit-field's number is its bits. */
	if (!node->bits && node->bytes > 8 && node->class != WATCH_FLOAT &&
	    node->class != WATCH_COMPLEX && node->bytes != 16)
		node->class = WATCH_BYTES;
	if (!node->bytes || (node->bytes == 16 && node->class == WATCH_BOOL))
		node->class = WATCH_BYTES;
}

/* Its numbers, and whether they are flags, as gdb sees it: none has more than one bit. */
/* "shop::Level::" before its names, as C++ has them; "" in C. */
static void enum_prefix(Dwarf_Die *die, char *path)
{
	struct scope scope = { .level = 0 };
	char *last;

	*path = 0;
	if (scope_of(die, &scope) || !scope_path(&scope, 1, path))
		return;
	if (dwarf_hasattr(die, DW_AT_enum_class)) {
		if (strlen(path) + 3 < SCOPE_PATH_MAX)
			strcat(path, "::");
		return;
	}
	last = strrchr(path, ':');
	path[scope.level > 1 && last ? last + 1 - path : 0] = 0;
}

static int enumerators_make(struct making *making, size_t at, Dwarf_Die *die)
{
	char prefix[SCOPE_PATH_MAX], name[SCOPE_PATH_MAX + DECLARED_NAME_MAX];
	int are_flags = 1, has_negative = 0, err = 0, more;
	Dwarf_Off last = 0;
	Dwarf_Die child;

	enum_prefix(die, prefix);
	making->type->nodes[at].first = making->type->node_count;
	for (more = !dwarf_child(die, &child); more && !err;
	     more = !dwarf_siblingof(&child, &child)) {
		struct watch_node node = { .class = WATCH_ENUMERATOR };
		const struct declared none = { 0 };
		Dwarf_Attribute attribute;
		Dwarf_Sword value = 0;

		if (dwarf_dieoffset(&child) <= last)
			return -WM_E_WATCH_DAMAGED;
		last = dwarf_dieoffset(&child);
		if (dwarf_tag(&child) != DW_TAG_enumerator ||
		    !dwarf_attr(&child, DW_AT_const_value, &attribute))
			continue;
		if (making->type->nodes[at].count == ENUMERATORS_MAX ||
		    making->type->node_count == WATCH_NODES_MAX) {
			making->type->nodes[at].flags |= WATCH_IS_CUT;
			break;
		}
		if (dwarf_whatform(&attribute) == DW_FORM_sdata ||
		    dwarf_whatform(&attribute) == DW_FORM_implicit_const)
			dwarf_formsdata(&attribute, &value);
		else
			dwarf_formudata(&attribute, (Dwarf_Word *)&value);
		node.value = value;
		snprintf(name, sizeof(name), "%s%s", prefix,
			 dwarf_diename(&child) ? dwarf_diename(&child) : "");
		node.member = name_add(making, name);
		has_negative |= value < 0;
		are_flags &= !(value & (value - 1)) && value >= 0;
		err = node_add(making, &node, &none, making->depths[at]);
		making->type->nodes[at].count += !err;
	}
	if (are_flags && making->type->nodes[at].count)
		making->type->nodes[at].flags |= WATCH_IS_FLAGS;
	if (!has_negative)
		making->type->nodes[at].flags |= WATCH_IS_UNSIGNED;
	return err;
}

static int member_make(const struct declared_member *member, void *data)
{
	struct making *making = data;
	struct watch_type *type = making->type;
	struct watch_node node = { .offset = (uint32_t)member->offset,
				   .bit = (uint16_t)member->bit,
				   .bits = (uint16_t)member->bits,
				   .bytes = member->bits ? (member->bit + member->bits + 7) / 8
							 : 0 };
	char name[DECLARED_NAME_MAX], base[DECLARED_NAME_MAX - 2];
	int err;

	if (member->is_virtual || member->is_static)
		return 0;
	if (type->node_count == WATCH_NODES_MAX || member->offset > DESCRIBED_MAX) {
		type->nodes[making->parent].flags |= WATCH_IS_CUT;
		return 1;
	}
	if (member->is_base) {
		declared_name(&member->type, base, sizeof(base));
		snprintf(name, sizeof(name), "<%s>", base);
		node.member = name_add(making, name);
	} else {
		node.member = name_add(making, member->name);
	}
	err = node_add(making, &node, &member->type, making->depths[making->parent] + 1u);
	type->nodes[making->parent].count += !err;
	return err;
}

static int members_make(struct making *making, size_t at, const struct declared *record)
{
	int err;

	if (declared_tag(record) == DW_TAG_union_type)
		making->type->nodes[at].flags |= WATCH_IS_UNION;
	making->type->nodes[at].first = making->type->node_count;
	making->parent = at;
	err = declared_members(record, member_make, making);
	return err < 0 ? err : 0;
}

static int element_make(struct making *making, size_t at, const struct declared *array)
{
	struct watch_node node = { 0 };
	struct declared element;
	uint64_t bytes, count;
	int64_t lowest;
	int err = declared_element(array, &element, &bytes, &lowest, &count);

	if (err || !bytes || count > DESCRIBED_MAX ||
	    bytes * count > making->type->nodes[at].bytes || declared_is_by_columns(array))
		return 0; /* a run of bytes */
	making->type->nodes[at].class = WATCH_ARRAY;
	making->type->nodes[at].first = making->type->node_count;
	making->type->nodes[at].elements = count;
	making->type->nodes[at].value = lowest;
	err = node_add(making, &node, &element, making->depths[at] + 1u);
	making->type->nodes[at].count = !err;
	return err;
}

/* What a node is, and its children. Its place in what it is part of is known already. */
static int node_fill(struct making *making, size_t at)
{
	struct declared declared = making->of[at];
	struct watch_node *node = &making->type->nodes[at];
	char name[DECLARED_NAME_MAX];
	uint64_t bytes = node->bytes;
	int err;

	declared_name(&declared, name, sizeof(name));
	node->name = name_add(making, name);
	node->class = WATCH_BYTES;
	node->type = WM_TYPE_BYTES;
	err = declared_peel(&declared, making->file);
	if (err)
		return err == -ENOENT ? 0 : err;
	if (!bytes && (declared_bytes(&declared, &bytes) || bytes > UINT32_MAX))
		return 0;
	node->bytes = (uint32_t)bytes;
	switch (declared_tag(&declared)) {
	case DW_TAG_base_type:
		base_fill(node, &declared.die);
		return 0;
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
		node->class = bytes == 8 ? WATCH_POINTER : WATCH_BYTES;
		node->type = bytes == 8 ? WM_TYPE_PTR : WM_TYPE_BYTES;
		return 0;
	case DW_TAG_enumeration_type:
		node->class = bytes <= 8 ? WATCH_ENUM : WATCH_BYTES;
		err = enumerators_make(making, at, &declared.die);
		node = &making->type->nodes[at];
		node->type = integer_type(bytes, !(node->flags & WATCH_IS_UNSIGNED));
		return err;
	default:
		break;
	}
	if (bytes > DESCRIBED_MAX || making->depths[at] >= WATCH_TYPE_DEPTH_MAX)
		return 0;
	if (declared_tag(&declared) == DW_TAG_array_type)
		return element_make(making, at, &declared);
	if (!declared_is_record(&declared))
		return 0;
	node->class = WATCH_STRUCT;
	return members_make(making, at, &declared);
}

/* An enumeration of 64 bits or less, an integer: the kinds that can have bits. */
static void bits_check(struct watch_node *node)
{
	switch (node->class) {
	case WATCH_SIGNED:
	case WATCH_UNSIGNED:
	case WATCH_CHAR:
	case WATCH_UCHAR:
	case WATCH_BOOL:
	case WATCH_ENUM:
		return;
	default:
		node->bits = node->bit = 0;
	}
}

int type_make(struct watch_type *type, const struct declared *declared, uint64_t bytes,
	      unsigned int bit, unsigned int bits, const struct code_file *file)
{
	struct making making = { .type = type, .file = file };
	struct watch_node node = { .bit = (uint16_t)bit, .bits = (uint16_t)bits };
	int err;

	*type = (struct watch_type){ 0 };
	node.bytes = (uint32_t)(bits ? bytes : 0);
	if (array_grow(&type->names, &making.names_room, 1, 1))
		return -ENOMEM;
	type->names[0] = 0;
	type->names_bytes = 1;
	err = node_add(&making, &node, declared, 0);
	for (size_t i = 0; !err && i < type->node_count; i++) {
		if (type->nodes[i].class == WATCH_ENUMERATOR)
			continue;
		err = node_fill(&making, i);
		if (type->nodes[i].bits)
			bits_check(&type->nodes[i]);
	}
	free(making.of);
	free(making.depths);
	/* Forged members may lie outside of what they are members of. */
	return !err && expression_type_check(type) ? -WM_E_WATCH_DAMAGED : err;
}

int type_make_single(struct watch_type *type, enum watch_class class, uint8_t wm_type,
		     uint64_t bytes, const char *name)
{
	size_t name_bytes = strlen(name) + 1;

	*type = (struct watch_type){ .nodes = calloc(1, sizeof(*type->nodes)),
				     .node_count = 1,
				     .names = calloc(1, name_bytes + 1),
				     .names_bytes = (uint32_t)name_bytes + 1 };
	if (!type->nodes || !type->names)
		return -ENOMEM;
	memcpy(type->names + 1, name, name_bytes);
	*type->nodes = (struct watch_node){
		.class = (uint8_t) class, .type = wm_type, .bytes = (uint32_t)bytes, .name = 1
	};
	return 0;
}
