/* SPDX-License-Identifier: MIT */
#include "branch/soft/soft_modules.h"

#include "base/elf.h"

#include <string.h>

#define PAGE 4096u

int soft_modules_note(struct soft_modules *modules)
{
	return modules_note(&modules->modules, modules->pid);
}

/*
 * The base of the module of this mapped part: the offset to add to its linked addresses. Two
 * segments may have the same page of the file: that with code is meant.
 */
static uint64_t base_of(const struct elf *elf, const struct engine_module *module)
{
	uint64_t base = module->start - module->offset;
	int has_found = 0, is_code = 0;

	for (size_t i = 0; i < elf->segment_count; i++) {
		const Elf64_Phdr *segment = &elf->segments[i];
		uint64_t first = segment->p_offset / PAGE * PAGE;

		if (segment->p_type != PT_LOAD || module->offset < first ||
		    module->offset - first >= segment->p_filesz + segment->p_offset % PAGE ||
		    (has_found && (is_code || !(segment->p_flags & PF_X))))
			continue;
		has_found = 1;
		is_code = segment->p_flags & PF_X;
		base = module->start - (module->offset - first) - segment->p_vaddr / PAGE * PAGE;
	}
	return base;
}

/* Without a build id of its own it may be any. */
static int is_noted(const struct modules *modules, const struct control_module *module,
		    const char *path)
{
	for (size_t i = 0; i < modules->count; i++) {
		const struct module_noted *noted = &modules->noted[i];

		if (noted->module.base == module->base && !strcmp(noted->path, path) &&
		    !memcmp(noted->module.build_id, module->build_id, module->build_id_bytes))
			return 1;
	}
	return 0;
}

int soft_modules_told(struct soft_modules *modules, const struct engine_module *reported,
		      const char *path)
{
	struct control_module module = { .base = reported->start - reported->offset };
	struct elf elf;
	int err = modules->is_gone ? 0 : soft_modules_note(modules), bytes;

	if (err || !path[0])
		return err;
	if (!elf_open(&elf, path)) {
		module.base = base_of(&elf, reported);
		bytes = elf_build_id(&elf, module.build_id);
		module.build_id_bytes = (uint8_t)(bytes > 0 ? bytes : 0);
	}
	elf_release(&elf);
	/* it came and went between two looks */
	if (is_noted(&modules->modules, &module, path))
		return 0;
	return modules->modules.sink->calls->module(modules->modules.sink, &module, path);
}

void soft_modules_release(struct soft_modules *modules)
{
	modules_release(&modules->modules);
}
