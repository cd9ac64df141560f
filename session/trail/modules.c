/* SPDX-License-Identifier: MIT */
#include "session/trail/modules.h"

#include "base/array.h"
#include "base/elf.h"
#include "base/maps.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static int is_noted(const struct modules *modules, const struct map *first)
{
	for (size_t i = 0; i < modules->count; i++)
		if (modules->noted[i].base == first->start &&
		    modules->noted[i].inode == first->inode)
			return 1;
	return 0;
}

static int note(struct modules *modules, pid_t pid, const struct map *first)
{
	struct control_module module = { .base = first->start };
	char path[128];
	struct elf elf;

	if (array_grow(&modules->noted, &modules->room, modules->count + 1,
		       sizeof(*modules->noted)))
		return -ENOMEM;
	modules->noted[modules->count++] = (struct module_noted){ first->start, first->inode };
	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", (int)pid,
		 (unsigned long long)first->start, (unsigned long long)first->end);
	if (first->path[0] == '/') {
		if (!elf_open(&elf, path))
			module.build_id_bytes = (uint8_t)elf_build_id(&elf, module.build_id);
		elf_release(&elf);
	}
	return trace_module_add(modules->writer, modules->process, &module, first->path);
}

int modules_note(struct modules *modules, pid_t pid)
{
	struct maps maps;
	int err = 0;

	if (!maps_read(&maps, pid)) {
		for (size_t i = 0; i < maps.count && !err; i++) {
			const struct map *first = &maps.list[i];

			if (!(first->prot & PROT_EXEC) || !first->path[0])
				continue;
			while (first > maps.list && !strcmp(first[-1].path, maps.list[i].path))
				first--;
			if (!is_noted(modules, first))
				err = note(modules, pid, first);
		}
	}
	maps_release(&maps);
	return err;
}

void modules_release(struct modules *modules)
{
	free(modules->noted);
	*modules = (struct modules){ 0 };
}
