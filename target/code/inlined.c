/* SPDX-License-Identifier: MIT */
#include "target/code/inlined.h"

#include "target/expression/scope.h"

#include <dwarf.h>
#include <errno.h>
#include <stdio.h>

#define SPACES_MAX 64  /* namespaces and classes, each in another */
#define SCOPES_MAX 256 /* functions and blocks, likewise */

/* The unit that has the code. Compilers other than GCC write no .debug_aranges. */
static int unit_at(Dwarf *dwarf, Dwarf_Addr pc, Dwarf_Die *unit)
{
	Dwarf_CU *next = NULL;

	if (dwarf_addrdie(dwarf, pc, unit))
		return 0;
	while (!dwarf_get_units(dwarf, next, &next, NULL, NULL, unit, NULL))
		if ((dwarf_tag(unit) == DW_TAG_compile_unit ||
		     dwarf_tag(unit) == DW_TAG_skeleton_unit) &&
		    dwarf_haspc(unit, pc) > 0)
			return 0;
	return -ENOENT;
}

static int is_space(int tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_class_type ||
	       tag == DW_TAG_structure_type || tag == DW_TAG_union_type;
}

static int is_code(int tag)
{
	return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine ||
	       tag == DW_TAG_lexical_block;
}

/* The function or block in `scope` that has the code, also inside namespaces and classes there. */
static int scope_at(const Dwarf_Die *scope, Dwarf_Addr pc, Dwarf_Die *found)
{
	Dwarf_Die levels[SPACES_MAX], from = *scope;
	int level = 0;

	if (dwarf_child(&from, &levels[0]))
		return -ENOENT;
	while (level >= 0) {
		int tag = dwarf_tag(&levels[level]);

		if (is_code(tag) && dwarf_haspc(&levels[level], pc) > 0) {
			*found = levels[level];
			return 0;
		}
		if (is_space(tag) && level + 1 < SPACES_MAX &&
		    !dwarf_child(&levels[level], &levels[level + 1])) {
			level++;
			continue;
		}
		while (level >= 0 && code_dwarf_next(&levels[level]))
			level--;
	}
	return -ENOENT;
}

static void name_find(Dwarf_Die *die, struct code_inlined *inlined)
{
	struct scope scope;
	char path[SCOPE_PATH_MAX];
	const char *name;
	Dwarf_Die origin;

	inlined->linkage = code_dwarf_linkage(die);
	if (inlined->linkage)
		return;
	name = dwarf_diename(die);
	if (scope_origin(die, &origin) && !scope_of(&origin, &scope) && scope_path(&scope, 0, path))
		name = path;
	snprintf(inlined->name, sizeof(inlined->name), "%.*s", CODE_INLINED_NAME_BYTES - 1,
		 name ? name : "");
}

/* `skeleton`: the unit in the module's file, which has the folder. */
static void inlined_take(Dwarf_Die *skeleton, Dwarf_Die *unit, Dwarf_Die *die,
			 struct code_inlined *inlined)
{
	Dwarf_Attribute attribute;
	Dwarf_Files *files;
	Dwarf_Word file, line;
	size_t count;

	*inlined = (struct code_inlined){ 0 };
	name_find(die, inlined);
	if (dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &attribute), &file) ||
	    dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &attribute), &line) ||
	    dwarf_getsrcfiles(unit, &files, &count) || file >= count)
		return;
	inlined->source = dwarf_filesrc(files, file, NULL, NULL);
	inlined->line = (unsigned int)line;
	inlined->folder = dwarf_formstring(dwarf_attr(skeleton, DW_AT_comp_dir, &attribute));
}

size_t code_inlined_at(struct code_file *file, uint64_t address,
		       struct code_inlined all[CODE_INLINED_MAX])
{
	struct code_dwarf *dwarf = code_dwarf_of(file);
	Dwarf_Die skeleton, unit, scope, inner;
	Dwarf_Addr pc;
	size_t count = 0;

	if (!dwarf)
		return 0;
	pc = address - (uint64_t)dwarf->bias;
	if (unit_at(dwarf->dwarf, pc, &unit))
		return 0;
	skeleton = unit;
	code_dwarf_split(file, &unit);
	scope = unit;
	for (unsigned int i = 0;
	     i < SCOPES_MAX && count < CODE_INLINED_MAX && !scope_at(&scope, pc, &inner); i++) {
		scope = inner;
		if (dwarf_tag(&scope) == DW_TAG_inlined_subroutine)
			inlined_take(&skeleton, &unit, &scope, &all[count++]);
	}
	for (size_t i = 0; i < count / 2; i++) {
		struct code_inlined outer = all[i];

		all[i] = all[count - 1 - i];
		all[count - 1 - i] = outer;
	}
	return count;
}
