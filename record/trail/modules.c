/* SPDX-License-Identifier: MIT */
#include "record/trail/modules.h"

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
		if (modules->noted[i].start == first->start &&
		    modules->noted[i].device == first->device &&
		    modules->noted[i].inode == first->inode)
			return 1;
	return 0;
}

void modules_build_id(struct control_module *module, const struct elf *elf)
{
	int bytes = elf_build_id(elf, module->build_id);

	module->build_id_bytes = (uint8_t)(bytes > 0 ? bytes : 0);
}

const struct map *modules_first_map(const struct maps *maps, const struct map *map)
{
	while (map > maps->list && !strcmp(map[-1].path, map->path))
		map--;
	return map;
}

int modules_read(struct control_module *module, int memory, const struct map *first)
{
	struct elf elf;
	int is_read = !elf_open_memory(&elf, memory, first->start);

	*module = (struct control_module){ .base = first->start };
	if (is_read) {
		module->base = elf.base;
		modules_build_id(module, &elf);
	}
	elf_release(&elf);
	return is_read;
}

int modules_report(struct modules *modules, const struct control_module *module, const char *path)
{
	int err = module_epochs_take(&modules->epochs, module, path);

	return err ? err : modules->sink->calls->module(modules->sink, module, path);
}

static int note(struct modules *modules, int memory, const struct map *first)
{
	struct control_module module;
	char *path = strdup(first->path);
	struct module_noted *noted;

	if (!path || array_grow(&modules->noted, &modules->room, modules->count + 1,
				sizeof(*modules->noted))) {
		free(path);
		return -ENOMEM;
	}
	modules_read(&module, memory, first);
	noted = &modules->noted[modules->count++];
	*noted = (struct module_noted){ .start = first->start };
	noted->device = first->device;
	noted->inode = first->inode;
	noted->module = module;
	noted->path = path;
	return modules_report(modules, &module, first->path);
}

/* A file that was written over and mapped again is another module: by its build id. */
static int is_there(const struct maps *maps, int memory, const struct module_noted *noted)
{
	const struct map *map = maps_find(maps, noted->start);
	struct control_module now;

	if (!map || map->start != noted->start || map->inode != noted->inode ||
	    map->device != noted->device || strcmp(map->path, noted->path) != 0)
		return 0;
	return !modules_read(&now, memory, map) || !memcmp(&now, &noted->module, sizeof(now));
}

/* Tell what is not there any more, before what may have taken its place. */
static int note_gone(struct modules *modules, const struct maps *maps, int memory)
{
	size_t kept = 0;
	int err = 0;

	for (size_t i = 0; i < modules->count; i++) {
		struct module_noted *noted = &modules->noted[i];
		struct control_module module = { .base = noted->module.base, .gone = 1 };

		if (err || is_there(maps, memory, noted)) {
			modules->noted[kept++] = *noted;
			continue;
		}
		err = modules_report(modules, &module, noted->path);
		free(noted->path);
	}
	modules->count = kept;
	return err;
}

int modules_note(struct modules *modules, pid_t pid)
{
	struct maps maps;
	char path[64];
	int err = 0, memory;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	memory = open(path, O_RDONLY | O_CLOEXEC);
	/*
	 * a process that is ending has nothing mapped; that does not show that its modules are gone
	 */
	if (!maps_read(&maps, pid) && maps.count) {
		/* a process has what it was forked with: it need not be read again */
		err = note_gone(modules, &maps, modules->is_copied ? -1 : memory);
		modules->is_copied = 0;
		for (size_t i = 0; i < maps.count && !err; i++) {
			const struct map *first = &maps.list[i];

			if (!(first->prot & PROT_EXEC) || !first->path[0])
				continue;
			first = modules_first_map(&maps, first);
			if (!is_noted(modules, first))
				err = note(modules, memory, first);
		}
	}
	maps_release(&maps);
	if (memory >= 0)
		close(memory);
	return err;
}

int modules_copy(struct modules *copy, const struct modules *modules)
{
	copy->is_copied = 1;
	if (array_grow(&copy->noted, &copy->room, modules->count, sizeof(*copy->noted)))
		return -ENOMEM;
	for (; copy->count < modules->count; copy->count++) {
		struct module_noted *noted = &copy->noted[copy->count];

		*noted = modules->noted[copy->count];
		noted->path = strdup(noted->path);
		if (!noted->path)
			return -ENOMEM;
	}
	return 0;
}

int modules_tell(struct modules *modules)
{
	int err = 0;

	for (size_t i = 0; i < modules->count && !err; i++)
		err = modules_report(modules, &modules->noted[i].module, modules->noted[i].path);
	return err;
}

void modules_release(struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		free(modules->noted[i].path);
	free(modules->noted);
	module_epochs_release(&modules->epochs);
	*modules = (struct modules){ 0 };
}
