/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_modules.h"

#include "base/array.h"
#include "base/elf.h"
#include "base/maps.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096u
#define TICK_NS 10000000u /* at CONFIG_HZ=100 */

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

static uint64_t clock_ns(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/*
 * Whether the path's file was changed, or took another one's place, since the module came. Another
 * inode of the same device is another file. overlayfs and btrfs show other devices in maps than
 * stat(2) does, so there another inode counts if it came since, and a file's time may be early by a
 * tick of the kernel's.
 */
static int is_later(const struct soft_modules *modules, const struct engine_module *reported,
		    const struct stat *about)
{
	int is_other = reported->inode && reported->inode != about->st_ino;
	uint64_t changed = (uint64_t)about->st_ctim.tv_sec * 1000000000u +
			   (uint64_t)about->st_ctim.tv_nsec;

	if (is_other && makedev(reported->device[0], reported->device[1]) == about->st_dev)
		return 1;
	return modules->clock &&
	       changed + (is_other ? TICK_NS : 0) >
		       soft_clock_ns(modules->clock, reported->ticks) +
			       (clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC));
}

static void by_file(struct control_module *module, const struct engine_module *reported,
		    const char *path)
{
	struct elf elf;

	if (!elf_open(&elf, path)) {
		module->base = base_of(&elf, reported);
		modules_build_id(module, &elf);
	}
	elf_release(&elf);
}

static int has_path(const struct map *map, const char *path)
{
	size_t bytes = strlen(path);

	return !strncmp(map->path, path, bytes) &&
	       (!map->path[bytes] || !strcmp(map->path + bytes, " (deleted)"));
}

/* Of a module whose file was removed, or that never had one: its memory is most likely there. */
static int by_memory(struct control_module *module, pid_t pid, uint64_t start, const char *path)
{
	struct control_module found;
	const struct map *first;
	struct maps maps;
	int memory, is_found = 0;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/mem", (int)pid);
	memory = open(name, O_RDONLY | O_CLOEXEC);
	first = maps_read(&maps, pid) ? NULL : maps_find(&maps, start);
	if (first && has_path(first, path)) {
		first = modules_first_map(&maps, first);
		is_found = modules_read(&found, memory, first);
	}
	if (is_found)
		*module = found;
	maps_release(&maps);
	if (memory >= 0)
		close(memory);
	return is_found;
}

static void identify(const struct soft_modules *modules, struct control_module *module,
		     const struct engine_module *reported, const char *path)
{
	struct stat about;
	int has_file = path[0] == '/' && !stat(path, &about);

	if (has_file && !is_later(modules, reported, &about)) {
		by_file(module, reported, path);
	} else if (modules->is_gone || !by_memory(module, modules->pid, reported->start, path)) {
		/* the base is a guess, and no file has this build id */
		module->build_id_bytes = has_file;
	}
}

/* Without a build id of its own it may be any. */
static struct module_noted *noted_find(const struct modules *modules,
				       const struct control_module *module, const char *path)
{
	for (size_t i = 0; i < modules->count; i++) {
		struct module_noted *noted = &modules->noted[i];

		if (noted->module.base == module->base && !strcmp(noted->path, path) &&
		    !memcmp(noted->module.build_id, module->build_id, module->build_id_bytes))
			return noted;
	}
	return NULL;
}

static int gone(struct modules *modules, uint64_t start)
{
	for (size_t i = 0; i < modules->count; i++) {
		struct module_noted *noted = &modules->noted[i];
		struct control_module module = { .base = noted->module.base, .gone = 1 };
		int err;

		if (noted->code != start)
			continue;
		err = modules_report(modules, &module, noted->path);
		free(noted->path);
		*noted = modules->noted[--modules->count];
		return err;
	}
	return 0;
}

int soft_modules_told(struct soft_modules *of, const struct engine_module *reported,
		      const char *path)
{
	struct control_module module = { .base = reported->start - reported->offset };
	struct modules *modules = &of->modules;
	struct module_noted *noted;

	if (reported->entry.kind == ENGINE_ENTRY_GONE)
		return gone(modules, reported->start);
	if (!path[0])
		return 0;
	identify(of, &module, reported, path);
	noted = noted_find(modules, &module, path);
	if (noted) {
		noted->code = noted->code ? noted->code : reported->start;
		return 0;
	}
	if (array_grow(&modules->noted, &modules->room, modules->count + 1,
		       sizeof(*modules->noted)))
		return -ENOMEM;
	noted = &modules->noted[modules->count];
	*noted = (struct module_noted){ .start = reported->start,
					.code = reported->start,
					.module = module,
					.path = strdup(path) };
	if (!noted->path)
		return -ENOMEM;
	modules->count++;
	return modules_report(modules, &module, path);
}
