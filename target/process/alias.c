/* SPDX-License-Identifier: MIT */
#include "target/process/alias.h"

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
#include <sys/stat.h>
#include <unistd.h>

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

static int memory_read(const struct loaded_list *list, uint64_t address, void *buffer, size_t bytes)
{
	return pread(list->mem, buffer, bytes, (off_t)address) == (ssize_t)bytes ? 0 : -EFAULT;
}

/* A string of the process; 0 where it has none at the address, or a longer one. */
static int text_read(const struct loaded_list *list, uint64_t address, char text[PATH_MAX])
{
	ssize_t got = address ? pread(list->mem, text, PATH_MAX, (off_t)address) : 0;

	return got > 0 && *text && memchr(text, 0, (size_t)got);
}

/* The beginning of a file of its in /proc. Returns the bytes read. */
static size_t proc_read(const struct loaded_list *list, const char *name, void *buffer, size_t room)
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

static void start_read(const struct loaded_list *list, struct start *start)
{
	*start = (struct start){ 0 };
	target_auxv(list->pid, AT_PHDR, &start->phdrs);
	target_auxv(list->pid, AT_PHNUM, &start->phdr_count);
	target_auxv(list->pid, AT_EXECFN, &start->name);
}

static struct loaded *program_find(const struct loaded_list *list, const struct start *start)
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
static int is_program(const struct loaded_list *list, const char *name)
{
	struct stat program, named;
	char exe[64];

	snprintf(exe, sizeof(exe), "/proc/%d/exe", (int)list->pid);
	return !stat(exe, &program) && !mount_ns_stat(list->pid, name, &named) &&
	       program.st_dev == named.st_dev && program.st_ino == named.st_ino;
}

static int program_name(const struct loaded_list *list, const struct start *start,
			struct loaded *program)
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
static uint64_t debug_find(const struct loaded_list *list, const struct start *start,
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

int alias_read(struct loaded_list *list)
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
