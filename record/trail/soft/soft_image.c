/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_image.h"

#include "abi/engine.h"
#include "base/elf.h"
#include "base/lack.h"
#include "target/process/agentpath.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <waymark/error.h>

#define PAGE 4096u
#define IMAGE_BYTES_MAX (UINT64_C(1) << 28)

static uint64_t page_of(uint64_t address)
{
	return address / PAGE * PAGE;
}

static uint64_t pages_to(uint64_t address)
{
	return (address + PAGE - 1) / PAGE * PAGE;
}

static int prot_of(const Elf64_Phdr *header)
{
	return (header->p_flags & PF_R ? PROT_READ : 0) |
	       (header->p_flags & PF_W ? PROT_WRITE : 0) | (header->p_flags & PF_X ? PROT_EXEC : 0);
}

static int add(struct soft_image *image, const Elf64_Phdr *header)
{
	struct soft_segment *segment = &image->segments[image->count];
	uint64_t inside = header->p_vaddr % PAGE;

	if (image->count == SOFT_IMAGE_SEGMENTS_MAX || header->p_vaddr > IMAGE_BYTES_MAX ||
	    header->p_memsz > IMAGE_BYTES_MAX || header->p_filesz > header->p_memsz ||
	    header->p_offset % PAGE != inside || page_of(header->p_vaddr) < image->bytes)
		return -WM_E_NOT_ELF;
	segment->at = page_of(header->p_vaddr);
	segment->bytes = pages_to(header->p_vaddr + header->p_memsz) - segment->at;
	segment->offset = header->p_offset - inside;
	segment->filled = header->p_filesz ? inside + header->p_filesz : 0;
	segment->prot = prot_of(header);
	image->bytes = segment->at + segment->bytes;
	image->count++;
	return 0;
}

/* One that was cut off would be mapped, and fault. */
static int is_whole(const struct soft_image *image)
{
	struct stat file;

	if (fstat(image->fd, &file))
		return 0;
	for (size_t i = 0; i < image->count; i++)
		if (image->segments[i].offset + image->segments[i].filled > (uint64_t)file.st_size)
			return 0;
	return 1;
}

/* Another version's would say no only when it is in the program already. */
static int version_check(const struct elf *elf)
{
	struct engine_version says;

	if (elf_note(elf, ENGINE_NOTE_OWNER, ENGINE_NOTE_TYPE, &says, sizeof(says)) !=
		    sizeof(says) ||
	    says.magic != ENGINE_MAGIC)
		return -WM_E_NOT_ELF;
	return says.version == ENGINE_VERSION ? 0 : -WM_E_PROTOCOL;
}

static int image_open(struct soft_image *image, const char *path)
{
	struct elf elf;
	int err;

	*image = (struct soft_image){ .fd = -1 };
	err = elf_open(&elf, path);
	if (!err && (elf.header.e_type != ET_DYN || elf_segment(&elf, PT_INTERP)))
		err = -WM_E_NOT_ELF;
	if (!err)
		err = version_check(&elf);
	for (size_t i = 0; i < elf.segment_count && !err; i++)
		if (elf.segments[i].p_type == PT_LOAD)
			err = add(image, &elf.segments[i]);
	if (!err) {
		image->entry = elf.header.e_entry;
		image->fd = open(path, O_RDONLY | O_CLOEXEC);
		if (image->fd < 0)
			err = -errno;
	}
	if (!err &&
	    (!image->count || !image->entry || image->entry >= image->bytes || !is_whole(image)))
		err = -WM_E_NOT_ELF;
	elf_release(&elf);
	return err;
}

void soft_image_close(struct soft_image *image)
{
	if (image->fd >= 0)
		close(image->fd);
	image->fd = -1;
}

int soft_image_find(struct soft_image *image, const char *named, char *detail, size_t bytes)
{
	char path[PATH_MAX];
	int err = 0;

	image->fd = -1;
	if (named)
		snprintf(path, sizeof(path), "%s", named);
	else if (agentpath_find_engine(path))
		err = -WM_E_NO_ENGINE;
	if (!err)
		err = image_open(image, path);
	if (!err)
		return 0;
	if (err == -ENOENT)
		err = -WM_E_NO_ENGINE;
	if (err == -WM_E_NO_ENGINE || err == -WM_E_PROTOCOL || error_is_lack(err))
		snprintf(detail, bytes, "%s", path);
	else
		snprintf(detail, bytes, "%s: %s", path, wm_error_text(err));
	if (err == -WM_E_NO_ENGINE || err == -WM_E_PROTOCOL || error_is_lack(err))
		return err;
	return -WM_E_ENGINE_FILE;
}

/* ---- its place in a process ---- */

/* With the NUL before and behind: what strings of dynamic symbols have. */
static int has_name(const Elf_Data *strings)
{
	static const char *const names[] = { "\0__asan_init", "\0__tsan_init", "\0__msan_init",
					     "\0__hwasan_init" };

	for (size_t i = 0; strings && strings->d_buf && i < sizeof(names) / sizeof(names[0]); i++)
		if (memmem(strings->d_buf, strings->d_size, names[i], strlen(names[i] + 1) + 2))
			return 1;
	return 0;
}

/* A compiler has the names too, but in its data. */
static int imports(Elf *elf)
{
	Elf_Scn *section = NULL;
	int is = 0;

	while (!is && (section = elf_nextscn(elf, section))) {
		GElf_Shdr head;

		if (gelf_getshdr(section, &head) && head.sh_type == SHT_DYNSYM)
			is = has_name(elf_rawdata(elf_getscn(elf, head.sh_link), NULL));
	}
	return is;
}

/*
 * Whether the program that a process has executed imports a sanitizer's runtime, whose shadow
 * memory is at addresses of its own choice; 0 also where its file can't be read.
 */
static int is_sanitized(pid_t pid)
{
	char path[32];
	Elf *elf = NULL;
	int fd, is;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (elf_version(EV_CURRENT) != EV_NONE)
		elf = elf_begin(fd, ELF_C_READ, NULL);
	is = elf && imports(elf);
	elf_end(elf);
	close(fd);
	return is;
}

uint64_t soft_image_place(pid_t pid, int *is_far)
{
	uint64_t random = 0;

	*is_far = is_sanitized(pid);
	(void)!getrandom(&random, sizeof(random), GRND_NONBLOCK);
	return engine_place(random, *is_far) / PAGE * PAGE;
}
