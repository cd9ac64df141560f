/* SPDX-License-Identifier: MIT */
/* The agent's boundary around the code of all modules of a test's own process. */
#ifndef INSIDE_UNWIND_TESTING_MODULES_H
#define INSIDE_UNWIND_TESTING_MODULES_H

#include "inside/unwind/boundary.h"

#include <link.h>
#include <stddef.h>

static int module_add(struct dl_phdr_info *info, size_t bytes, void *data)
{
	uintptr_t header = 0;

	(void)bytes;
	(void)data;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
			header = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_LOAD && part->p_flags & PF_X)
			boundary_add(start, start + part->p_memsz, header);
	}
	return 0;
}

static inline void modules_add(void)
{
	dl_iterate_phdr(module_add, NULL);
}

#endif
