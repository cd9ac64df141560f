/* SPDX-License-Identifier: MIT */
/*
 * A type as C writes it: the declared name in the middle, pointers before it, arrays and functions
 * behind it, and brackets where both are. The text grows from its inside: "*", "(*)(int)",
 * "void (*)(int)".
 */
#include "target/expression/declared.h"
#include "target/expression/scope.h"

#include <dwarf.h>
#include <stdio.h>
#include <string.h>

#define PARTS_MAX 64 /* of a name; more is "..." */
#define DEPTH_MAX 2  /* of functions' parameters in each other */

struct naming {
	unsigned int parts; /* so many more */
	unsigned int depth;
};

static void name_of(struct naming *naming, const struct declared *type, char *name, size_t bytes);

/* Put something before, or behind, what is there; what doesn't fit is cut. */
static void before(char *middle, const char *text)
{
	char whole[DECLARED_NAME_MAX];

	snprintf(whole, sizeof(whole), "%s%s", text, middle);
	memcpy(middle, whole, sizeof(whole));
}

static void behind(char *middle, const char *text)
{
	size_t used = strlen(middle);

	snprintf(middle + used, DECLARED_NAME_MAX - used, "%s", text);
}

static void parameters_put(struct naming *naming, Dwarf_Die *die, int language, char *middle)
{
	char one[DECLARED_NAME_MAX];
	Dwarf_Die child;
	int count = 0, more;

	behind(middle, "(");
	for (more = !dwarf_child(die, &child); more && naming->parts;
	     more = !dwarf_siblingof(&child, &child)) {
		struct declared type = { .language = language };

		if (dwarf_tag(&child) != DW_TAG_formal_parameter &&
		    dwarf_tag(&child) != DW_TAG_unspecified_parameters)
			continue;
		naming->parts--;
		if (dwarf_tag(&child) == DW_TAG_unspecified_parameters ||
		    naming->depth > DEPTH_MAX || declared_of(&child, &type))
			snprintf(one, sizeof(one), "...");
		else
			name_of(naming, &type, one, sizeof(one));
		behind(middle, count++ ? ", " : "");
		behind(middle, one);
	}
	behind(middle, count ? ")" : "void)");
}

static void dimensions_put(const struct declared *array, char *middle)
{
	struct declared rest = *array, element;
	uint64_t bytes, count;
	int64_t lowest;
	char text[32];

	for (int i = 0; i < 16; i++) {
		int err = declared_element(&rest, &element, &bytes, &lowest, &count);

		if (err || count == UINT64_MAX)
			snprintf(text, sizeof(text), "[]");
		else
			snprintf(text, sizeof(text), "[%llu]", (unsigned long long)count);
		behind(middle, text);
		if (err || element.dimension <= rest.dimension)
			return;
		rest = element;
	}
}

/* const and volatile of a pointer come behind it, else before all. */
static void qualifier_put(const char *word, const struct declared *target, char *middle,
			  char *front)
{
	char text[32];

	switch (declared_tag(target)) {
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
		snprintf(text, sizeof(text), *middle && *middle != '[' ? " %s " : " %s", word);
		before(middle, text);
		return;
	default:
		snprintf(text, sizeof(text), "%s ", word);
		if (strlen(front) + strlen(text) < 64)
			strcat(front, text);
	}
}

static int is_behind(const struct declared *type)
{
	return declared_tag(type) == DW_TAG_array_type ||
	       declared_tag(type) == DW_TAG_subroutine_type;
}

/* One level outwards: put its mark, go to what it is of. 0: this was the outermost. */
static int level_put(struct naming *naming, struct declared *type, char *middle, char *front)
{
	struct declared target = { .language = type->language };
	Dwarf_Die die = type->die;
	int tag = dwarf_tag(&die), is_void = declared_of(&die, &target) != 0;
	const char *mark = tag == DW_TAG_pointer_type	  ? "*"
			   : tag == DW_TAG_reference_type ? "&"
							  : "&&";

	switch (tag) {
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
		before(middle, mark);
		if (!is_void && is_behind(&target)) {
			before(middle, "(");
			behind(middle, ")");
		}
		break;
	case DW_TAG_array_type:
		dimensions_put(type, middle);
		break;
	case DW_TAG_subroutine_type:
		naming->depth++;
		parameters_put(naming, &die, type->language, middle);
		naming->depth--;
		break;
	case DW_TAG_const_type:
	case DW_TAG_volatile_type:
		if (!is_void)
			qualifier_put(tag == DW_TAG_const_type ? "const" : "volatile", &target,
				      middle, front);
		else
			strcat(front, tag == DW_TAG_const_type ? "const " : "volatile ");
		break;
	case DW_TAG_restrict_type:
	case DW_TAG_atomic_type:
		break;
	default:
		return 0;
	}
	if (is_void) {
		memset(&type->die, 0, sizeof(type->die));
		return 0;
	}
	*type = target;
	return 1;
}

/* "struct node" in C; C++ leaves the word out. */
static const char *word_of(Dwarf_Die *die, int language)
{
	Dwarf_Die unit;
	int own = dwarf_diecu(die, &unit, NULL, NULL) ? dwarf_srclang(&unit) : 0;

	switch (own > 0 ? own : language) {
	case DW_LANG_C89:
	case DW_LANG_C:
	case DW_LANG_C99:
	case DW_LANG_C11:
	case 0x2c: /* C17 */
	case 0x3e: /* C23 */
		break;
	default:
		return "";
	}
	switch (dwarf_tag(die)) {
	case DW_TAG_structure_type:
		return "struct ";
	case DW_TAG_union_type:
		return "union ";
	case DW_TAG_enumeration_type:
		return "enum ";
	default:
		return "";
	}
}

static const char *anonymous(int tag)
{
	switch (tag) {
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
		return "struct {...}";
	case DW_TAG_union_type:
		return "union {...}";
	case DW_TAG_enumeration_type:
		return "enum {...}";
	case DW_TAG_ptr_to_member_type:
		return "pointer to member";
	default:
		return "?";
	}
}

/* In C++ with its namespaces and classes. */
static const char *own_name(Dwarf_Die *die, const char *word, char *path)
{
	const char *name = dwarf_diename(die);
	struct scope scope = { .level = 0 };

	if (!name)
		return anonymous(dwarf_tag(die));
	if (dwarf_tag(die) == DW_TAG_base_type)
		return scope_short_type(name);
	if (*word || scope_of(die, &scope) || !scope_path(&scope, 1, path))
		return name;
	return path;
}

static void name_of(struct naming *naming, const struct declared *type, char *name, size_t bytes)
{
	char middle[DECLARED_NAME_MAX] = "", front[96] = "", path[SCOPE_PATH_MAX];
	struct declared at = *type;
	const char *own = "void", *word = "", *space;
	Dwarf_Die none = { 0 };

	/* a level may have used up what is left, for its parameters */
	while (naming->parts && strlen(front) < 64 && level_put(naming, &at, middle, front))
		naming->parts -= naming->parts > 0;
	if (at.die.addr != none.addr) {
		word = dwarf_diename(&at.die) ? word_of(&at.die, type->language) : "";
		own = own_name(&at.die, word, path);
	}
	space = *middle && *middle != ' ' ? " " : "";
	snprintf(name, bytes, "%s%s%s%s%s", front, word, own, space, middle);
}

void declared_name(const struct declared *type, char *name, size_t bytes)
{
	struct naming naming = { .parts = PARTS_MAX };

	name_of(&naming, type, name, bytes);
}
