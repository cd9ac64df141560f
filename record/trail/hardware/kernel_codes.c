/* SPDX-License-Identifier: MIT */
#include "record/trail/hardware/kernel_codes.h"

#include "abi/trail.h"
#include "base/kernel_image.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096u
#define SLOTS 8192u	    /* pages that are kept at a time: 32 MiB, more than a kernel's text */
#define SEGMENTS_MAX 65535u /* without ELF's extension for more, which kcore does not use */
#define TEXT_LOWEST UINT64_C(0xffffffff80000000) /* __START_KERNEL_map of x86-64 */

struct segment {
	uint64_t start, bytes, offset;
};

struct slot {
	uint64_t page; /* its address; 0: none */
	uint32_t bytes;
	uint8_t *content;
};

struct kernel_codes {
	int fd;
	struct segment *segments;
	size_t count;
	struct slot slots[SLOTS];
};

/* ---- kcore ---- */

static int read_all(int fd, void *bytes, size_t count, uint64_t offset)
{
	return pread(fd, bytes, count, (off_t)offset) == (ssize_t)count ? 0 : -ENOEXEC;
}

static int is_core(const Elf64_Ehdr *header)
{
	return !memcmp(header->e_ident, ELFMAG, SELFMAG) &&
	       header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
	       header->e_type == ET_CORE && header->e_machine == EM_X86_64 &&
	       header->e_phentsize == sizeof(Elf64_Phdr) && header->e_phnum &&
	       header->e_phnum < SEGMENTS_MAX;
}

/* The part of it in the kernel's half, and its place in the file. */
static void take_segment(struct kernel_codes *codes, const Elf64_Phdr *from)
{
	if (from->p_type != PT_LOAD || from->p_vaddr < TRAIL_KERNEL || !from->p_filesz ||
	    from->p_filesz > UINT64_MAX - from->p_vaddr ||
	    from->p_offset > (uint64_t)INT64_MAX - from->p_filesz)
		return;
	codes->segments[codes->count++] = (struct segment){ from->p_vaddr, from->p_filesz,
							    from->p_offset };
}

static int segments_read(struct kernel_codes *codes)
{
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	int err = read_all(codes->fd, &header, sizeof(header), 0);

	if (err || !is_core(&header) || header.e_phoff > INT64_MAX / 2)
		return -ENOEXEC;
	codes->segments = calloc(header.e_phnum, sizeof(*codes->segments));
	if (!codes->segments)
		return -ENOMEM;
	for (size_t i = 0; i < header.e_phnum && !err; i++) {
		err = read_all(codes->fd, &segment, sizeof(segment),
			       header.e_phoff + i * sizeof(segment));
		if (!err)
			take_segment(codes, &segment);
	}
	return err ? err : codes->count ? 0 : -ENOEXEC;
}

int kernel_codes_open(struct kernel_codes **out, const char *root)
{
	struct kernel_codes *codes = *out = calloc(1, sizeof(*codes));
	char path[PATH_MAX];
	int err;

	if (!codes)
		return -ENOMEM;
	snprintf(path, sizeof(path), "%s/proc/kcore", root);
	codes->fd = open(path, O_RDONLY | O_CLOEXEC);
	/* where the kernel is locked down it can be opened, and not be read */
	err = codes->fd < 0 ? -errno : segments_read(codes);
	if (!err)
		return 0;
	kernel_codes_close(codes);
	*out = NULL;
	return err;
}

void kernel_codes_close(struct kernel_codes *codes)
{
	if (!codes)
		return;
	for (size_t i = 0; i < SLOTS; i++)
		free(codes->slots[i].content);
	free(codes->segments);
	if (codes->fd >= 0)
		close(codes->fd);
	free(codes);
}

/* The page there, as much of it as there is. NULL: nothing. */
static const struct slot *page_at(struct kernel_codes *codes, uint64_t page)
{
	struct slot *slot = &codes->slots[page / PAGE % SLOTS];

	if (slot->page == page)
		return slot;
	slot->page = 0;
	if (!slot->content)
		slot->content = malloc(PAGE);
	for (size_t i = 0; slot->content && i < codes->count; i++) {
		const struct segment *segment = &codes->segments[i];
		uint64_t into = page - segment->start, left = segment->bytes - into;
		ssize_t got;

		if (page < segment->start || into >= segment->bytes)
			continue;
		got = pread(codes->fd, slot->content, left < PAGE ? (size_t)left : PAGE,
			    (off_t)(segment->offset + into));
		if (got <= 0)
			continue;
		slot->page = page;
		slot->bytes = (uint32_t)got;
		return slot;
	}
	return NULL;
}

size_t kernel_codes_read(struct kernel_codes *codes, uint64_t address, uint8_t *bytes, size_t most)
{
	size_t got = 0;

	while (got < most) {
		uint64_t at = address + got, into = at % PAGE;
		const struct slot *slot = page_at(codes, at - into);
		size_t count;

		if (!slot || into >= slot->bytes)
			break;
		count = slot->bytes - into < most - got ? slot->bytes - into : most - got;
		memcpy(bytes + got, slot->content + into, count);
		got += count;
		if (into + count < PAGE)
			break;
	}
	return got;
}

/* ---- names ---- */

/* The lowest code: so it has a place, though its names will not be known. */
static uint64_t text_lowest(const struct kernel_codes *codes)
{
	uint64_t lowest = UINT64_MAX;

	for (size_t i = 0; i < codes->count; i++)
		if (codes->segments[i].start >= TEXT_LOWEST && codes->segments[i].start < lowest)
			lowest = codes->segments[i].start;
	return lowest == UINT64_MAX ? TEXT_LOWEST : lowest;
}

static int note_loadable(const char *name, uint64_t address, void *data)
{
	struct control_module module = { .base = address };
	char path[KERNEL_NAME_BYTES + 2];
	struct trail_sink *sink = data;

	snprintf(path, sizeof(path), "[%s]", name);
	return address < TRAIL_KERNEL ? 0 : sink->calls->module(sink, &module, path);
}

int kernel_modules_note(const struct kernel_codes *codes, struct trail_sink *sink, const char *root)
{
	struct control_module module = { .base = kernel_image_start(root) };
	int err, is_shown = module.base >= TRAIL_KERNEL;

	if (!is_shown)
		module.base = text_lowest(codes);
	module.build_id_bytes = (uint8_t)kernel_image_build_id(root, module.build_id);
	err = sink->calls->module(sink, &module, KERNEL_PATH);
	return err || !is_shown ? err : kernel_image_modules(root, note_loadable, sink);
}
