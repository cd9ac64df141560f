/* SPDX-License-Identifier: MIT */
#include "code/dwarf.h"

#include <stdlib.h>

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

struct code_dwarf *code_dwarf_of(struct code_file *file)
{
	struct code_dwarf *dwarf = file->dwarf;
	struct code_file *holder;

	if (dwarf)
		return dwarf->dwarf ? dwarf : NULL;
	dwarf = file->dwarf = calloc(1, sizeof(*dwarf));
	holder = dwarf ? holder_of(file) : NULL;
	if (!holder)
		return NULL;
	dwarf->elf = elf_of(holder);
	dwarf->dwarf = dwarf->elf ? dwarf_begin_elf(dwarf->elf, DWARF_C_READ, NULL) : NULL;
	dwarf->bias = bias_of(file, holder);
	return dwarf->dwarf ? dwarf : NULL;
}

void code_dwarf_close(struct code_dwarf *dwarf)
{
	if (!dwarf)
		return;
	if (dwarf->dwarf)
		dwarf_end(dwarf->dwarf);
	if (dwarf->elf)
		elf_end(dwarf->elf);
	free(dwarf);
}
