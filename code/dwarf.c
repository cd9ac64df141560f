/* SPDX-License-Identifier: MIT */
#include "code/dwarf.h"

#include "base/array.h"
#include "base/sorted.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEVELS_MAX 128

/* Prelinking moves a module after its debug file was split off: the text's address tells by how much. */
static int64_t bias_of(const struct code_file *file, const struct code_file *holder)
{
	const struct code_section *mine = code_file_section(file, ".text");
	const struct code_section *its = code_file_section(holder, ".text");

	return mine && its ? (int64_t)(mine->address - its->address) : 0;
}

static Elf *elf_of(const struct code_file *file)
{
	elf_version(EV_CURRENT);
	if (file->image)
		return elf_memory(file->image, file->file_bytes);
	/* Not ELF_C_READ_MMAP: see the head of code/dwarf.h. */
	return elf_begin(file->fd, ELF_C_READ, NULL);
}

static struct code_file *holder_of(struct code_file *file)
{
	struct code_file *debug;

	if (code_file_section(file, ".debug_info"))
		return file;
	debug = code_file_debug(file);
	return debug && code_file_section(debug, ".debug_info") ? debug : NULL;
}

/* What libdw takes into memory at once. More than 32-bit offsets reach, and be it unpacked, is forged. */
static int is_too_much(const struct code_file *holder)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < holder->section_count; i++) {
		const struct code_section *section = &holder->sections[i];
		uint64_t bytes = section->bytes;
		Elf64_Chdr packed;

		if (strncmp(section->name, ".debug_", 7) != 0 || section->type == SHT_NOBITS)
			continue;
		if (section->flags & SHF_COMPRESSED && holder->fd >= 0 &&
		    pread(holder->fd, &packed, sizeof(packed), (off_t)section->offset) ==
			    sizeof(packed))
			bytes = packed.ch_size;
		if (bytes > UINT32_MAX - sum)
			return 1;
		sum += bytes;
	}
	return 0;
}

struct code_dwarf *code_dwarf_of(struct code_file *file)
{
	struct code_dwarf *dwarf = file->dwarf;
	struct code_file *holder;

	if (dwarf)
		return dwarf->dwarf ? dwarf : NULL;
	dwarf = file->dwarf = calloc(1, sizeof(*dwarf));
	holder = dwarf ? holder_of(file) : NULL;
	if (!holder || is_too_much(holder))
		return NULL;
	dwarf->elf = elf_of(holder);
	dwarf->dwarf = dwarf->elf ? dwarf_begin_elf(dwarf->elf, DWARF_C_READ, NULL) : NULL;
	dwarf->bias = bias_of(file, holder);
	return dwarf->dwarf ? dwarf : NULL;
}

/* Where a function begins: of one in several pieces, the first. */
static int entry_of(Dwarf_Die *die, Dwarf_Addr *entry)
{
	Dwarf_Addr base, end;

	if (!dwarf_lowpc(die, entry))
		return 0;
	return dwarf_ranges(die, 0, &base, entry, &end) > 0 ? 0 : -ENOENT;
}

static int function_add(struct code_dwarf *dwarf, Dwarf_Die *die)
{
	Dwarf_Addr entry;

	if (entry_of(die, &entry))
		return 0;
	if (array_grow(&dwarf->functions, &dwarf->function_room, dwarf->function_count + 1,
		       sizeof(*dwarf->functions)))
		return -ENOMEM;
	dwarf->functions[dwarf->function_count++] = (struct code_dwarf_entry){
		.address = entry + (uint64_t)dwarf->bias, .offset = dwarf_dieoffset(die)
	};
	return 0;
}

/* What functions may be described in. */
static int holds_functions(Dwarf_Die *die)
{
	switch (dwarf_tag(die)) {
	case DW_TAG_subprogram:
	case DW_TAG_lexical_block:
	case DW_TAG_inlined_subroutine:
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
		return 1;
	default:
		return 0;
	}
}

/*
 * dwarf_getfuncs() calls itself for each level of nesting, and a forged unit has as many as it has bytes. To
 * go on behind a level reads all of it again, so that a bound on them bounds the time too. What is deeper is
 * no compiler's: the rest of that unit is left out.
 */
static int unit_read(struct code_dwarf *dwarf, const Dwarf_Die *unit)
{
	Dwarf_Die levels[LEVELS_MAX];
	int level, err = 0;

	levels[0] = *unit;
	if (dwarf_child(&levels[0], &levels[1]))
		return 0;
	for (level = 1; !err && level > 0;) {
		Dwarf_Die *die = &levels[level];

		if (dwarf_tag(die) == DW_TAG_subprogram)
			err = function_add(dwarf, die);
		if (holds_functions(die)) {
			if (level + 1 == LEVELS_MAX)
				break;
			if (!dwarf_child(die, &levels[level + 1])) {
				level++;
				continue;
			}
		}
		while (level > 0 && dwarf_siblingof(&levels[level], &levels[level]))
			level--;
	}
	return err;
}

static int by_address(const void *one, const void *other)
{
	const struct code_dwarf_entry *a = one, *b = other;

	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static void functions_read(struct code_dwarf *dwarf)
{
	Dwarf_CU *unit = NULL;
	Dwarf_Die die;

	dwarf->has_functions = 1;
	while (!dwarf_get_units(dwarf->dwarf, unit, &unit, NULL, NULL, &die, NULL))
		if ((dwarf_tag(&die) == DW_TAG_compile_unit ||
		     dwarf_tag(&die) == DW_TAG_partial_unit) &&
		    unit_read(dwarf, &die))
			break;
	if (dwarf->function_count)
		qsort(dwarf->functions, dwarf->function_count, sizeof(*dwarf->functions),
		      by_address);
}

static int has_name(Dwarf_Die *die, const char *name)
{
	Dwarf_Attribute attribute;
	const char *linkage = NULL;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
	    dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
		linkage = dwarf_formstring(&attribute);
	if (!linkage)
		linkage = dwarf_diename(die);
	return linkage && !strncmp(name, linkage, strlen(linkage)) &&
	       (!name[strlen(linkage)] || name[strlen(linkage)] == '.');
}

int code_dwarf_function(struct code_dwarf *dwarf, uint64_t address, const char *name,
			Dwarf_Die *die)
{
	size_t low, count = 0;

	if (!dwarf->has_functions)
		functions_read(dwarf);
	low = sorted_below(dwarf->functions, dwarf->function_count, sizeof(*dwarf->functions),
			   offsetof(struct code_dwarf_entry, address), address);
	while (low + count < dwarf->function_count &&
	       dwarf->functions[low + count].address == address)
		count++;
	for (size_t i = 0; i < count; i++)
		if (dwarf_offdie(dwarf->dwarf, dwarf->functions[low + i].offset, die) &&
		    (count == 1 || has_name(die, name)))
			return 0;
	return -ENOENT;
}

void code_dwarf_close(struct code_dwarf *dwarf)
{
	if (!dwarf)
		return;
	if (dwarf->dwarf)
		dwarf_end(dwarf->dwarf);
	if (dwarf->elf)
		elf_end(dwarf->elf);
	free(dwarf->functions);
	free(dwarf);
}
