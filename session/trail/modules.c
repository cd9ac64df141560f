/* SPDX-License-Identifier: MIT */
#include "session/trail/modules.h"

#include "base/array.h"
#include "base/elf.h"
#include "base/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int is_noted(const struct modules *modules, const struct map *first)
{
	for (size_t i = 0; i < modules->count; i++)
		if (modules->noted[i].base == first->start &&
		    modules->noted[i].inode == first->inode)
			return 1;
	return 0;
}

/* By its memory: so also what was deleted since, and the vdso. */
static int note(struct modules *modules, int memory, const struct map *first)
{
	struct control_module module = { .base = first->start };
	struct elf elf;

	if (array_grow(&modules->noted, &modules->room, modules->count + 1,
		       sizeof(*modules->noted)))
		return -ENOMEM;
	modules->noted[modules->count++] = (struct module_noted){ first->start, first->inode };
	if (!elf_open_memory(&elf, memory, first->start)) {
		module.base = elf.base;
		module.build_id_bytes = (uint8_t)elf_build_id(&elf, module.build_id);
	}
	elf_release(&elf);
	return modules->sink->calls->module(modules->sink, &module, first->path);
}

int modules_note(struct modules *modules, pid_t pid)
{
	struct maps maps;
	char path[64];
	int err = 0, memory;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	memory = open(path, O_RDONLY | O_CLOEXEC);
	if (!maps_read(&maps, pid)) {
		for (size_t i = 0; i < maps.count && !err; i++) {
			const struct map *first = &maps.list[i];

			if (!(first->prot & PROT_EXEC) || !first->path[0])
				continue;
			while (first > maps.list && !strcmp(first[-1].path, maps.list[i].path))
				first--;
			if (!is_noted(modules, first))
				err = note(modules, memory, first);
		}
	}
	maps_release(&maps);
	if (memory >= 0)
		close(memory);
	return err;
}

void modules_release(struct modules *modules)
{
	free(modules->noted);
	*modules = (struct modules){ 0 };
}
