/* SPDX-License-Identifier: MIT */
#include "record/kernel/task_files.h"

#include "base/elf.h"
#include "trace/jitdump.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOADS_MAX 16u
#define FILES_MAX 65536u /* then files are read again */
#define VDSO "[vdso]"

struct load {
	uint64_t offset, bytes, address; /* in the file, and as linked */
	int is_code;
};

/* By what stat(2) says of it: another file may take its place, or it may be written over. */
struct task_file {
	struct task_file *next;
	struct stat about;
	int error; /* -ENOENT: it is no module */
	struct load loads[LOADS_MAX];
	unsigned int load_count;
	uint8_t build_id[ELF_BUILD_ID_BYTES];
	int build_id_bytes;
};

struct task_files {
	struct task_file *all; /* what was asked for last comes first */
	size_t count;
	uint8_t vdso_id[ELF_BUILD_ID_BYTES];
	int vdso_id_bytes;
};

/* Every process has the same, and we have it too. */
static int vdso_build_id(uint8_t id[ELF_BUILD_ID_BYTES])
{
	uint64_t address = getauxval(AT_SYSINFO_EHDR);
	int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC), bytes = 0;
	struct elf elf;

	if (mem < 0 || !address) {
		if (mem >= 0)
			close(mem);
		return 0;
	}
	if (!elf_open_memory(&elf, mem, address))
		bytes = elf_build_id(&elf, id);
	elf_release(&elf);
	close(mem);
	return bytes > 0 ? bytes : 0;
}

struct task_files *task_files_new(void)
{
	struct task_files *files = calloc(1, sizeof(*files));

	if (files)
		files->vdso_id_bytes = vdso_build_id(files->vdso_id);
	return files;
}

static void files_forget(struct task_files *files)
{
	for (struct task_file *file = files->all, *next; file; file = next) {
		next = file->next;
		free(file);
	}
	files->all = NULL;
	files->count = 0;
}

void task_files_free(struct task_files *files)
{
	if (!files)
		return;
	files_forget(files);
	free(files);
}

static void file_read(struct task_file *file, const char *path)
{
	struct elf elf;
	int err = elf_open(&elf, path);

	for (size_t i = 0; !err && i < elf.segment_count && file->load_count < LOADS_MAX; i++) {
		const Elf64_Phdr *segment = &elf.segments[i];

		if (segment->p_type == PT_LOAD)
			file->loads[file->load_count++] = (struct load){ segment->p_offset,
									 segment->p_filesz,
									 segment->p_vaddr,
									 segment->p_flags & PF_X };
	}
	if (!err)
		file->build_id_bytes = elf_build_id(&elf, file->build_id);
	if (file->build_id_bytes < 0)
		file->build_id_bytes = 0;
	file->error = err || !file->load_count ? -ENOENT : 0;
	elf_release(&elf);
}

static int is_file(const struct task_file *file, const struct stat *about)
{
	const struct stat *known = &file->about;

	return known->st_dev == about->st_dev && known->st_ino == about->st_ino &&
	       known->st_size == about->st_size &&
	       !memcmp(&known->st_mtim, &about->st_mtim, sizeof(about->st_mtim)) &&
	       !memcmp(&known->st_ctim, &about->st_ctim, sizeof(about->st_ctim));
}

/* NULL: the file can't be had, or no memory. */
static const struct task_file *file_at(struct task_files *files, const char *path)
{
	struct task_file **at = &files->all, *file;
	struct stat about;

	if (stat(path, &about) || !S_ISREG(about.st_mode))
		return NULL;
	while (*at && !is_file(*at, &about))
		at = &(*at)->next;
	file = *at;
	if (file) {
		*at = file->next;
	} else {
		if (files->count == FILES_MAX)
			files_forget(files);
		file = calloc(1, sizeof(*file));
		if (!file)
			return NULL;
		file->about = about;
		file_read(file, path);
		files->count++;
	}
	file->next = files->all;
	files->all = file;
	return file;
}

static const struct task_file *file_of(struct task_files *files, pid_t pid, const char *path)
{
	char full[PATH_MAX + 64];
	const struct task_file *file;

	snprintf(full, sizeof(full), "/proc/%d/root%s", (int)pid, path);
	file = file_at(files, full);
	return file ? file : file_at(files, path);
}

/*
 * The segment with this offset in the file. The kernel maps whole pages, so two may have the same
 * one: that with code is meant.
 */
static const struct load *load_at(const struct task_file *file, uint64_t offset)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const struct load *found = NULL;

	for (unsigned int i = 0; i < file->load_count; i++) {
		const struct load *load = &file->loads[i];
		uint64_t first = load->offset & ~(page - 1);

		if (offset >= first && offset < load->offset + load->bytes &&
		    (!found || (load->is_code && !found->is_code)))
			found = load;
	}
	return found;
}

int task_files_module(struct task_files *files, pid_t pid, const char *path, uint64_t start,
		      uint64_t offset, struct control_module *module)
{
	const struct task_file *file;
	const struct load *load;

	*module = (struct control_module){ .base = start - offset };
	if (!strcmp(path, VDSO)) {
		module->base = start;
		module->build_id_bytes = (uint8_t)files->vdso_id_bytes;
		memcpy(module->build_id, files->vdso_id, sizeof(files->vdso_id));
		return 0;
	}
	if (path[0] != '/')
		return -ENOENT;
	file = file_of(files, pid, path);
	if (!file)
		return 0;
	load = file->error ? NULL : load_at(file, offset);
	if (!load)
		return jitdump_is_name(path) ? 0 : -ENOENT;
	module->base = start - (load->address + offset - load->offset);
	module->build_id_bytes = (uint8_t)file->build_id_bytes;
	memcpy(module->build_id, file->build_id, sizeof(file->build_id));
	return 0;
}
