/* SPDX-License-Identifier: MIT */
#include "target/code/enumerator.h"

#include <dwarf.h>
#include <search.h>
#include <stdlib.h>

#define CHILDREN_MAX (4 * ENUMERATION_COUNT_MAX) /* member functions are children, too */

struct known {
	const void *die;
	const struct enumeration *names; /* may be NULL */
};

static int known_order(const void *a, const void *b)
{
	const struct known *left = a, *right = b;

	return left->die < right->die ? -1 : left->die > right->die;
}

static unsigned int form_bytes(unsigned int form)
{
	switch (form) {
	case DW_FORM_data1:
		return 1;
	case DW_FORM_data2:
		return 2;
	case DW_FORM_data4:
		return 4;
	case DW_FORM_data8:
		return 8;
	default:
		return 0;
	}
}

/*
 * An enumerator's value. Forms of fixed size do not say whether they are signed. GCC uses them for
 * non-negative values, in as few bytes as possible: so only one as wide as the type has a sign.
 */
static int value_of(Dwarf_Die *enumerator, unsigned int bytes, int is_signed, uint64_t *value)
{
	Dwarf_Attribute attribute;
	Dwarf_Word word;

	if (!dwarf_attr(enumerator, DW_AT_const_value, &attribute) ||
	    dwarf_formudata(&attribute, &word))
		return 0;
	if (is_signed && bytes < 8 && form_bytes(dwarf_whatform(&attribute)) == bytes &&
	    word >> (8 * bytes - 1))
		word |= UINT64_MAX << 8 * bytes;
	*value = word;
	return 1;
}

static const struct enumeration *read(struct enumeration_pool *pool, Dwarf_Die *type,
				      uint8_t field_type)
{
	struct enumeration_draft draft = { .type = field_type };
	const struct enumeration *names = NULL;
	unsigned int children = 0, bytes;
	int is_signed;
	Dwarf_Die child;

	bytes = enumeration_type_bytes(field_type, &is_signed);
	if (!bytes || dwarf_child(type, &child))
		return NULL;
	do {
		const char *name = dwarf_diename(&child);
		uint64_t value;

		if (++children > CHILDREN_MAX)
			draft.is_refused = 1;
		else if (dwarf_tag(&child) == DW_TAG_enumerator && name &&
			 value_of(&child, bytes, is_signed, &value))
			enumeration_draft_add(&draft, value, name);
	} while (!draft.is_refused && !dwarf_siblingof(&child, &child));
	names = enumeration_pool_make(pool, &draft);
	enumeration_draft_release(&draft);
	return names;
}

const struct enumeration *code_enumeration_of(struct code_enumerations *list, Dwarf_Die *type,
					      uint8_t field_type)
{
	struct known *known, **there;
	Dwarf_Die peeled;

	if (dwarf_peel_type(type, &peeled) || dwarf_tag(&peeled) != DW_TAG_enumeration_type)
		return NULL;
	there = tfind(&(struct known){ .die = peeled.addr }, &list->dies, known_order);
	if (there)
		return (*there)->names;
	known = calloc(1, sizeof(*known));
	if (!known)
		return NULL;
	*known = (struct known){ peeled.addr, read(&list->pool, &peeled, field_type) };
	if (!tsearch(known, &list->dies, known_order)) {
		free(known);
		return NULL;
	}
	return known->names;
}

void code_enumerations_release(struct code_enumerations *list)
{
	tdestroy(list->dies, free);
	enumeration_pool_release(&list->pool);
	list->dies = NULL;
}
