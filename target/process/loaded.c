/* SPDX-License-Identifier: MIT */
#include "target/process/loaded.h"

#include "base/array.h"
#include "base/elf.h"
#include "base/lack.h"
#include "base/maps.h"
#include "target/process/mount_ns.h"
#include "target/process/target.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The names by which a process was started and by which its loader knows the libraries. Its map has
 * the paths of the files, all links followed.
 */

#define PHDRS_MAX 128
#define DYNAMIC_MAX 512
#define MODULES_MAX 65536
#define NAMESPACES_MAX 64

/* glibc 2.35 and later, where r_version is 2: dlmopen()'s namespaces follow each other. */
struct namespace
{
	struct r_debug debug;
	uint64_t next;
};

/*
 * From the auxiliary vector: the program headers, and the address of the name that exec was given.
 */
struct start {
	uint64_t phdrs, phdr_count, name;
};

static int memory_read(void *data, uint64_t address, void *buffer, size_t bytes)
{
	const struct loaded_list *list = data;
	ssize_t got = pread(list->mem, buffer, bytes, (off_t)address);

	if (got < 0)
		return -errno;
	return (size_t)got == bytes ? 0 : -EFAULT;
}

/* A string of the process; 0 where it has none at the address, or a longer one. */
static int text_read(struct loaded_list *list, uint64_t address, char text[PATH_MAX])
{
	ssize_t got = address ? pread(list->mem, text, PATH_MAX, (off_t)address) : 0;

	return got > 0 && *text && memchr(text, 0, (size_t)got);
}

/* The beginning of a file of its in /proc. Returns the bytes read. */
static size_t proc_read(struct loaded_list *list, const char *name, void *buffer, size_t room)
{
	char path[64];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)list->pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? 0 : read(fd, buffer, room);
	if (fd >= 0)
		close(fd);
	return got > 0 ? (size_t)got : 0;
}

static void start_read(struct loaded_list *list, struct start *start)
{
	*start = (struct start){ 0 };
	target_auxv(list->pid, AT_PHDR, &start->phdrs);
	target_auxv(list->pid, AT_PHNUM, &start->phdr_count);
	target_auxv(list->pid, AT_EXECFN, &start->name);
}

static struct loaded *program_find(struct loaded_list *list, const struct start *start)
{
	struct loaded *program = NULL;

	for (size_t i = 0; i < list->count && list->all[i].id.start <= start->phdrs; i++)
		program = &list->all[i];
	return program;
}

/* ---- the program ---- */

/*
 * Does a name still lead to the program? The name that a script was started by leads to the script,
 * and that of /proc/self/exe nowhere.
 */
static int is_program(struct loaded_list *list, const char *name)
{
	struct stat program, named;
	char exe[64];

	snprintf(exe, sizeof(exe), "/proc/%d/exe", (int)list->pid);
	return !stat(exe, &program) && !mount_ns_stat(list->pid, name, &named) &&
	       program.st_dev == named.st_dev && program.st_ino == named.st_ino;
}

static int program_name(struct loaded_list *list, const struct start *start, struct loaded *program)
{
	char name[PATH_MAX], argument[PATH_MAX] = "";
	size_t bytes = proc_read(list, "cmdline", argument, sizeof(argument) - 1);
	const char *link = NULL;

	argument[bytes] = 0;
	if (text_read(list, start->name, name) && is_program(list, name))
		link = name;
	else if (strchr(argument, '/') && is_program(list, argument))
		link = argument;
	program->is_program = 1;
	program->aliases.link = link ? strdup(link) : NULL;
	program->aliases.argument = *argument ? strdup(argument) : NULL;
	return (link && !program->aliases.link) || (*argument && !program->aliases.argument)
		       ? -ENOMEM
		       : 0;
}

/* ---- libraries ---- */

/* The address of the loader's first struct r_debug; 0: none, or not yet. */
static uint64_t debug_find(struct loaded_list *list, const struct start *start,
			   const struct loaded *program)
{
	Elf64_Phdr phdrs[PHDRS_MAX];
	uint64_t at = 0;

	if (!start->phdr_count || start->phdr_count > PHDRS_MAX ||
	    memory_read(list, start->phdrs, phdrs, start->phdr_count * sizeof(phdrs[0])))
		return 0;
	for (uint64_t i = 0; i < start->phdr_count; i++)
		if (phdrs[i].p_type == PT_DYNAMIC)
			at = program->base + phdrs[i].p_vaddr;
	for (unsigned int i = 0; at && i < DYNAMIC_MAX; i++) {
		Elf64_Dyn entry;

		if (memory_read(list, at + i * sizeof(entry), &entry, sizeof(entry)) ||
		    entry.d_tag == DT_NULL)
			return 0;
		if (entry.d_tag == DT_DEBUG)
			return entry.d_un.d_ptr;
	}
	return 0;
}

static int library_name(struct loaded_list *list, const struct link_map *link)
{
	char name[PATH_MAX];

	for (size_t i = 0; i < list->count; i++) {
		struct loaded *loaded = &list->all[i];

		if (loaded->base != link->l_addr || loaded->is_program || loaded->is_listed)
			continue;
		loaded->is_listed = 1;
		if (!text_read(list, (uint64_t)(uintptr_t)link->l_name, name) ||
		    !strcmp(name, loaded->path))
			return 0;
		loaded->aliases.link = strdup(name);
		return loaded->aliases.link ? 0 : -ENOMEM;
	}
	return 0;
}

/* The list may change meanwhile: what it does not have then, it has at the next look. */
static int libraries_name(struct loaded_list *list, uint64_t debug)
{
	struct namespace space;
	struct link_map link;
	int err = 0;

	for (unsigned int i = 0; debug && i < NAMESPACES_MAX && !err; i++) {
		uint64_t at;

		if (memory_read(list, debug, &space.debug, sizeof(space.debug)))
			return 0;
		at = (uint64_t)(uintptr_t)space.debug.r_map;
		for (unsigned int j = 0; at && j < MODULES_MAX && !err; j++) {
			if (memory_read(list, at, &link, sizeof(link)))
				break;
			err = library_name(list, &link);
			at = (uint64_t)(uintptr_t)link.l_next;
		}
		if (space.debug.r_version < 2 ||
		    memory_read(list, debug + sizeof(space.debug), &space.next, sizeof(space.next)))
			break;
		debug = space.next;
	}
	return err;
}

/* Read them into the modules of a list. What cannot be read is left NULL. 0 or -ENOMEM. */
static int alias_read(struct loaded_list *list)
{
	struct loaded *program;
	struct start start;
	int err;

	start_read(list, &start);
	program = program_find(list, &start);
	if (!program)
		return 0;
	err = program_name(list, &start, program);
	return err ? err : libraries_name(list, debug_find(list, &start, program));
}

struct code_process loaded_process(struct loaded_list *list)
{
	return (struct code_process){ .memory = { memory_read, list },
				      .modules = list->modules,
				      .module_count = list->module_count };
}

void loaded_name(const struct loaded *loaded, char *name, size_t bytes)
{
	const char *link = loaded->is_program ? loaded->aliases.link : NULL;

	code_file_short_name(link ? link : loaded->path, name, bytes);
}

int loaded_open(struct loaded_list *list)
{
	struct code_memory memory = { memory_read, list };

	if (list->is_open)
		return 0;
	list->modules = calloc(list->count + 1, sizeof(struct code_module *));
	if (!list->modules)
		return -ENOMEM;
	list->is_open = 1;
	for (size_t i = 0; i < list->count; i++) {
		struct loaded *loaded = &list->all[i];
		struct code_file *file;
		char name[256];

		loaded->error = code_file_open_process(&file, list->pid, loaded->id.start,
						       loaded->path, &memory);
		if (loaded->error)
			continue;
		loaded->module = malloc(sizeof(*loaded->module));
		if (!loaded->module) {
			code_file_close(file);
			return -ENOMEM;
		}
		code_module_init(loaded->module, file, loaded->base);
		list->modules[list->module_count++] = loaded->module;
		file->aliases = loaded->aliases;
		loaded_name(loaded, name, sizeof(name));
		if (code_file_rename(file, name))
			return -ENOMEM;
	}
	return 0;
}

int loaded_is_go(struct loaded_list *list, const struct loaded *loaded)
{
	struct code_memory memory = { memory_read, list };
	struct code_file *file;
	int is_go;

	if (code_file_open_process(&file, list->pid, loaded->id.start, loaded->path, &memory))
		return 0;
	is_go = code_file_is_go(file);
	code_file_close(file);
	return is_go;
}

int loaded_id_is(const struct loaded_id *a, const struct loaded_id *b)
{
	return a->start == b->start && a->device == b->device && a->inode == b->inode &&
	       a->build_id_bytes == b->build_id_bytes &&
	       !memcmp(a->build_id, b->build_id, (size_t)a->build_id_bytes);
}

static int add(struct loaded_list *list, const struct map *map, const struct elf *elf)
{
	struct loaded *loaded;
	int bytes;

	if (array_grow(&list->all, &list->room, list->count + 1, sizeof(*list->all)))
		return -ENOMEM;
	loaded = &list->all[list->count];
	*loaded = (struct loaded){
		.id = { .start = map->start, .device = map->device, .inode = map->inode },
		.base = elf->base,
		.path = strdup(map->path)
	};
	if (!loaded->path)
		return -ENOMEM;
	bytes = elf_build_id(elf, loaded->id.build_id);
	loaded->id.build_id_bytes = bytes > 0 ? bytes : 0;
	list->count++;
	return 0;
}

static int is_of_file(const struct map *map, const struct map *first)
{
	return map && map->inode == first->inode && map->device == first->device;
}

/* A segment other than the first is mapped from the file where the header says. */
static int has_more(const struct elf *elf, const struct maps *maps, const struct map *first)
{
	for (size_t i = 0; i < elf->segment_count; i++) {
		const Elf64_Phdr *load = &elf->segments[i];
		uint64_t at = elf->base + load->p_vaddr;
		const struct map *map = maps_find(maps, at);

		if (load->p_type == PT_LOAD && is_of_file(map, first) &&
		    map->start != first->start && at - map->start + map->offset == load->p_offset)
			return 1;
	}
	return 0;
}

int loaded_runs(const struct elf *elf, const struct maps *maps, const struct map *first)
{
	for (size_t i = 0; i < elf->segment_count; i++) {
		const Elf64_Phdr *load = &elf->segments[i];
		const struct map *map;

		if (load->p_type != PT_LOAD || !(load->p_flags & PF_X))
			continue;
		map = maps_find(maps, elf->base + load->p_vaddr);
		if (!map || !(map->prot & PROT_EXEC))
			return 0;
		return is_of_file(map, first) || (!map->inode && has_more(elf, maps, first));
	}
	return 0;
}

int loaded_begins(const struct maps *maps, size_t index, struct map *first)
{
	const struct map *next = index + 1 < maps->count ? &maps->list[index + 1] : NULL;

	*first = maps->list[index];
	if (first->offset || !(first->prot & PROT_READ))
		return 0;
	if (first->inode || !strcmp(first->path, "[vdso]"))
		return 1;
	/* a copy of the header and the code, with the rest of the file behind it */
	if (!(first->prot & PROT_EXEC) || !next || !next->inode || next->start != first->end)
		return 0;
	first->inode = next->inode;
	first->device = next->device;
	first->path = next->path;
	return 1;
}

static int consider(struct loaded_list *list, const struct maps *maps, size_t index)
{
	struct map first;
	struct elf elf;
	int err;

	if (!loaded_begins(maps, index, &first))
		return 0;
	err = elf_open_memory(&elf, list->mem, first.start);
	if (!err && loaded_runs(&elf, maps, &first))
		err = add(list, &first, &elf);
	elf_release(&elf);
	return err == -ENOMEM ? err : 0;
}

/* By one thread, whose files in /proc are looked at. */
static int read_by(struct loaded_list *list, pid_t tid)
{
	struct maps maps = { 0 };
	char path[64];
	int err;

	*list = (struct loaded_list){ .mem = -1, .pid = tid };
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)tid);
	list->mem = open(path, O_RDONLY | O_CLOEXEC);
	if (list->mem < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	err = maps_read(&maps, tid);
	for (size_t i = 0; !err && i < maps.count; i++)
		err = consider(list, &maps, i);
	maps_release(&maps);
	return err ? err : alias_read(list);
}

int loaded_read(struct loaded_list *list, pid_t pid)
{
	struct target target;
	pid_t tid = pid;
	int err = read_by(list, tid);

	/* a leader that has ended has no memory to show, while other threads live on */
	for (int tries = 0; err && !error_is_lack(err) && !target_has_memory(tid); tries++) {
		loaded_release(list);
		if (tries == TARGET_RENEWALS || target_read(&target, pid) ||
		    target_has_ended(&target))
			return -ESRCH;
		tid = target.live_tid;
		err = read_by(list, tid);
	}
	return err;
}

void loaded_release(struct loaded_list *list)
{
	for (size_t i = 0; i < list->module_count; i++) {
		code_module_release(list->modules[i]);
		free(list->modules[i]);
	}
	for (size_t i = 0; i < list->count; i++) {
		free(list->all[i].path);
		free((char *)list->all[i].aliases.link);
		free((char *)list->all[i].aliases.argument);
	}
	free(list->modules);
	free(list->all);
	if (list->mem >= 0)
		close(list->mem);
	*list = (struct loaded_list){ .mem = -1 };
}
