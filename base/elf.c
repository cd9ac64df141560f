/* SPDX-License-Identifier: MIT */
#include "base/elf.h"

#include "base/regular_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

#define SEGMENTS_MAX 4096

/* All of it or an error; what is not there is -WM_E_NOT_ELF. */
static int read_at(int fd, uint64_t offset, void *buffer, size_t bytes)
{
	size_t done = 0;

	if (offset > INT64_MAX - bytes)
		return -WM_E_NOT_ELF;
	while (done < bytes) {
		ssize_t got = pread(fd, (char *)buffer + done, bytes - done,
				    (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return errno == EIO ? -WM_E_NOT_ELF : -errno;
		if (got == 0)
			return -WM_E_NOT_ELF;
		done += (size_t)got;
	}
	return 0;
}

static int header_check(const Elf64_Ehdr *header)
{
	if (memcmp(header->e_ident, ELFMAG, SELFMAG))
		return -WM_E_NOT_ELF;
	if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
	    header->e_machine != EM_X86_64)
		return -WM_E_FOREIGN_ARCH;
	if ((header->e_type != ET_EXEC && header->e_type != ET_DYN) ||
	    header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phnum > SEGMENTS_MAX)
		return -WM_E_NOT_ELF;
	return 0;
}

/* Read the header and the segments, at `start` in the file or the memory. */
static int headers_read(struct elf *elf, uint64_t start)
{
	int err = read_at(elf->fd, start, &elf->header, EI_NIDENT);

	/* A 32-bit program's header is shorter, and so may be a file that is no ELF at all. */
	if (!err && !memcmp(elf->header.e_ident, ELFMAG, SELFMAG) &&
	    elf->header.e_ident[EI_CLASS] != ELFCLASS64)
		return -WM_E_FOREIGN_ARCH;
	if (!err)
		err = read_at(elf->fd, start, &elf->header, sizeof(elf->header));
	if (!err)
		err = header_check(&elf->header);
	if (err)
		return err;
	elf->segments = calloc(elf->header.e_phnum + 1u, sizeof(*elf->segments));
	if (!elf->segments)
		return -ENOMEM;
	elf->segment_count = elf->header.e_phnum;
	return read_at(elf->fd, start + elf->header.e_phoff, elf->segments,
		       elf->segment_count * sizeof(*elf->segments));
}

int elf_open(struct elf *elf, const char *path)
{
	struct stat st;

	*elf = (struct elf){ .fd = regular_file_open(path, &st) };
	if (elf->fd < 0)
		return elf->fd == -ENODEV ? -WM_E_NOT_ELF : elf->fd;
	elf->file_bytes = (uint64_t)st.st_size;
	return headers_read(elf, 0);
}

int elf_open_memory(struct elf *elf, int mem_fd, uint64_t address)
{
	int err;

	*elf = (struct elf){ .fd = mem_fd, .in_memory = true };
	err = headers_read(elf, address);
	if (err)
		return err;
	for (size_t i = 0; i < elf->segment_count; i++) {
		const Elf64_Phdr *load = &elf->segments[i];

		if (load->p_type != PT_LOAD || load->p_offset >= 4096)
			continue;
		/* The header is the file's start, so it is p_offset before the segment. */
		elf->base = address - (load->p_vaddr - load->p_offset);
		return 0;
	}
	return -WM_E_NOT_ELF;
}

void elf_release(struct elf *elf)
{
	if (!elf->in_memory && elf->fd >= 0)
		close(elf->fd);
	free(elf->segments);
	*elf = (struct elf){ .fd = -1 };
}

const Elf64_Phdr *elf_segment(const struct elf *elf, uint32_t type)
{
	for (size_t i = 0; i < elf->segment_count; i++)
		if (elf->segments[i].p_type == type)
			return &elf->segments[i];
	return NULL;
}

const Elf64_Phdr *elf_segment_at(const struct elf *elf, uint64_t address)
{
	for (size_t i = 0; i < elf->segment_count; i++) {
		const Elf64_Phdr *load = &elf->segments[i];

		if (load->p_type == PT_LOAD && address >= load->p_vaddr &&
		    address - load->p_vaddr < load->p_memsz)
			return load;
	}
	return NULL;
}

int elf_read(const struct elf *elf, uint64_t address, void *buffer, size_t bytes)
{
	const Elf64_Phdr *load = elf_segment_at(elf, address);
	uint64_t in = load ? address - load->p_vaddr : 0;
	size_t filed;
	int err;

	if (!load || bytes > load->p_memsz - in)
		return -WM_E_NOT_ELF;
	if (elf->in_memory)
		return read_at(elf->fd, elf->base + address, buffer, bytes);
	filed = in >= load->p_filesz ? 0 : load->p_filesz - in;
	filed = filed < bytes ? filed : bytes;
	if (load->p_offset > UINT64_MAX - in)
		return -WM_E_NOT_ELF;
	err = read_at(elf->fd, load->p_offset + in, buffer, filed);
	if (!err)
		memset((char *)buffer + filed, 0, bytes - filed);
	return err;
}

int elf_read_text(const struct elf *elf, uint64_t address, char *buffer, size_t room)
{
	const Elf64_Phdr *load = elf_segment_at(elf, address);
	uint64_t left = load ? load->p_memsz - (address - load->p_vaddr) : 0;
	size_t done = 0, step = 256;

	if (!load)
		return -WM_E_NOT_ELF;
	if (left < room)
		room = (size_t)left;
	while (done < room) {
		size_t bytes = step < room - done ? step : room - done;
		int err = elf_read(elf, address + done, buffer + done, bytes);
		char *end;

		if (err)
			return err;
		end = memchr(buffer + done, '\0', bytes);
		if (end)
			return (int)(end - buffer);
		done += bytes;
		step *= 4;
	}
	return room == left ? -WM_E_NOT_ELF : -E2BIG;
}
