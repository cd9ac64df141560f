/* SPDX-License-Identifier: MIT */
#include "target/code/file.h"

#include "base/name_match.h"
#include "base/regular_file.h"
#include "target/code/dwarf.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

#define SEGMENTS_MAX 4096
#define SECTIONS_MAX 65536
#define NOTES_MAX_BYTES (1u << 20)

/* Copy from an offset in the file or the image; all of it or an error. */
static int read_at(const struct code_file *file, uint64_t offset, void *buffer, size_t bytes)
{
	size_t done = 0;

	if (offset > file->file_bytes || bytes > file->file_bytes - offset)
		return -WM_E_NOT_ELF;
	if (file->image) {
		memcpy(buffer, (char *)file->image + offset, bytes);
		return 0;
	}
	while (done < bytes) {
		ssize_t got = pread(file->fd, (char *)buffer + done, bytes - done,
				    (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0) /* cut short meanwhile */
			return -WM_E_NOT_ELF;
		done += (size_t)got;
	}
	return 0;
}

static int header_read(struct code_file *file)
{
	Elf64_Ehdr *header = &file->header;
	int err = read_at(file, 0, header, EI_NIDENT);

	if (err)
		return err;
	if (memcmp(header->e_ident, ELFMAG, SELFMAG))
		return -WM_E_NOT_ELF;
	if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB)
		return -WM_E_FOREIGN_ARCH;
	err = read_at(file, 0, header, sizeof(*header));
	if (err)
		return err;
	if (header->e_machine != EM_X86_64)
		return -WM_E_FOREIGN_ARCH;
	if ((header->e_type != ET_EXEC && header->e_type != ET_DYN &&
	     !(file->is_shared && header->e_type == ET_REL)) ||
	    (header->e_phnum && header->e_phentsize != sizeof(Elf64_Phdr)) ||
	    header->e_phnum > SEGMENTS_MAX)
		return -WM_E_NOT_ELF;
	return 0;
}

static int segments_read(struct code_file *file)
{
	size_t count = file->header.e_phnum;
	Elf64_Phdr *table = calloc(count + 1, sizeof(*table));
	int err;

	file->segments = calloc(count + 1, sizeof(*file->segments));
	err = !table || !file->segments
		      ? -ENOMEM
		      : read_at(file, file->header.e_phoff, table, count * sizeof(*table));
	for (size_t i = 0; !err && i < count; i++) {
		const Elf64_Phdr *from = &table[i];

		/* Nobody's addresses wrap around; sums of them need no second thought below. */
		if (from->p_vaddr + from->p_memsz < from->p_vaddr ||
		    from->p_offset + from->p_filesz < from->p_offset) {
			err = -WM_E_NOT_ELF;
			break;
		}
		file->segments[file->segment_count++] = (struct code_segment){
			.address = from->p_vaddr,
			.bytes = from->p_memsz,
			.offset = from->p_offset,
			.file_bytes = from->p_filesz < from->p_memsz ? from->p_filesz
								     : from->p_memsz,
			.alignment = from->p_align,
			.type = from->p_type,
			.flags = from->p_flags,
		};
	}
	free(table);
	return err;
}

/* The section table's size and the index of its names: where they don't fit, section 0 has them. */
static int section_table(const struct code_file *file, uint64_t *count, uint64_t *names)
{
	Elf64_Shdr first;
	int err;

	*count = file->header.e_shnum;
	*names = file->header.e_shstrndx;
	if (!file->header.e_shoff) {
		*count = 0;
		return 0;
	}
	if (file->header.e_shentsize != sizeof(first))
		return -WM_E_NOT_ELF;
	err = read_at(file, file->header.e_shoff, &first, sizeof(first));
	if (err)
		return err;
	if (!*count)
		*count = first.sh_size;
	if (*names == SHN_XINDEX)
		*names = first.sh_link;
	return *count > SECTIONS_MAX ? -WM_E_NOT_ELF : 0;
}

static void section_take(struct code_file *file, uint32_t index, const Elf64_Shdr *from)
{
	file->sections[index] = (struct code_section){
		.name = "",
		.address = from->sh_addr,
		.bytes = from->sh_size,
		.offset = from->sh_offset,
		.flags = from->sh_flags,
		.type = from->sh_type,
		.link = from->sh_link,
		.info = from->sh_info,
		.index = index,
	};
}

/* A module without section names, or with a damaged table, is one that was stripped of it. */
static int sections_read(struct code_file *file)
{
	uint64_t count, names;
	const void *text = NULL;
	size_t text_bytes = 0;
	Elf64_Shdr *table;
	int err = section_table(file, &count, &names);

	if (err || !count)
		return err == -WM_E_NOT_ELF ? 0 : err;
	table = calloc(count, sizeof(*table));
	file->sections = calloc(count, sizeof(*file->sections));
	file->contents = calloc(count, sizeof(*file->contents));
	err = !table || !file->sections || !file->contents
		      ? -ENOMEM
		      : read_at(file, file->header.e_shoff, table, count * sizeof(*table));
	if (!err) {
		file->section_count = count;
		for (uint32_t i = 0; i < count; i++)
			section_take(file, i, &table[i]);
		if (names < count && file->sections[names].type == SHT_STRTAB)
			err = code_file_content(file, &file->sections[names], &text, &text_bytes);
		for (uint32_t i = 0; !err && i < count; i++)
			if (table[i].sh_name < text_bytes)
				file->sections[i].name = (const char *)text + table[i].sh_name;
	}
	free(table);
	return err == -ENOMEM ? err : 0;
}

/* Look for the build id among the notes of one run of them. */
static void notes_scan(struct code_file *file, uint64_t offset, uint64_t bytes)
{
	uint8_t *notes = bytes && bytes <= NOTES_MAX_BYTES ? malloc(bytes) : NULL;

	if (!notes || read_at(file, offset, notes, bytes)) {
		free(notes);
		return;
	}
	for (uint64_t at = 0; bytes - at >= sizeof(Elf64_Nhdr);) {
		Elf64_Nhdr note;
		uint64_t name, description;

		memcpy(&note, notes + at, sizeof(note));
		name = at + sizeof(note);
		description = name + (((uint64_t)note.n_namesz + 3) & ~3ull);
		if (description > bytes || note.n_descsz > bytes - description)
			break;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof("GNU") &&
		    !memcmp(notes + name, "GNU", sizeof("GNU")) && note.n_descsz > 1 &&
		    note.n_descsz <= CODE_BUILD_ID_MAX) {
			memcpy(file->build_id, notes + description, note.n_descsz);
			file->build_id_bytes = note.n_descsz;
			break;
		}
		at = description + (((uint64_t)note.n_descsz + 3) & ~3ull);
		if (at > bytes)
			break;
	}
	free(notes);
}

static void build_id_find(struct code_file *file)
{
	for (size_t i = 0; i < file->segment_count && !file->build_id_bytes; i++)
		if (file->segments[i].type == PT_NOTE)
			notes_scan(file, file->segments[i].offset, file->segments[i].file_bytes);
	/* A debug file's segments point at nothing, its sections do. */
	for (size_t i = 0; i < file->section_count && !file->build_id_bytes; i++)
		if (file->sections[i].type == SHT_NOTE)
			notes_scan(file, file->sections[i].offset, file->sections[i].bytes);
}

void code_file_short_name(const char *path, char *name, size_t bytes)
{
	const char *base = name_last_part(path);
	const char *end;
	size_t count;

	end = strstr(base, ".so");
	if (!end || end == base || (end[3] && end[3] != '.'))
		end = base + strlen(base);
	count = (size_t)(end - base) < bytes - 1 ? (size_t)(end - base) : bytes - 1;
	for (size_t i = 0; i < count; i++)
		name[i] = isalnum((unsigned char)base[i]) || strchr("_-.+", base[i]) ? base[i]
										     : '_';
	if (!count && bytes > 1)
		name[count++] = '_';
	name[count] = 0;
}

static struct code_file *file_new(const char *path)
{
	struct code_file *file = calloc(1, sizeof(*file));
	char name[256];

	if (!file)
		return NULL;
	code_file_short_name(path, name, sizeof(name));
	file->fd = -1;
	file->path = strdup(path);
	file->name = strdup(name);
	file->root = strdup("");
	if (!file->path || !file->name || !file->root) {
		code_file_close(file);
		return NULL;
	}
	return file;
}

static int file_load(struct code_file *file)
{
	int err = header_read(file);

	if (!err)
		err = segments_read(file);
	if (!err)
		err = sections_read(file);
	if (!err)
		build_id_find(file);
	return err;
}

static struct code_version version_of(const struct stat *about)
{
	return (struct code_version){ (uint64_t)about->st_size, about->st_mtim, about->st_ctim };
}

static int is_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

int code_version_is(const struct code_version *version, int fd)
{
	struct code_version now;
	struct stat about;

	if (fstat(fd, &about))
		return 0;
	now = version_of(&about);
	return now.bytes == version->bytes && is_same_time(&now.written, &version->written) &&
	       is_same_time(&now.changed, &version->changed);
}

int code_file_open(struct code_file **file, const char *path)
{
	return code_file_open_as(file, path, 0);
}

int code_file_open_as(struct code_file **file, const char *path, int is_shared)
{
	struct code_file *new = file_new(path);
	struct stat st;
	int err;

	*file = NULL;
	if (!new)
		return -ENOMEM;
	new->is_shared = is_shared;
	new->fd = regular_file_open(path, &st);
	err = new->fd < 0 ? new->fd : 0;
	if (!err) {
		new->file_bytes = (uint64_t)st.st_size;
		new->version = version_of(&st);
		err = file_load(new);
	}
	if (err) {
		code_file_close(new);
		return err == -ENODEV ? -WM_E_NOT_ELF : err;
	}
	*file = new;
	return 0;
}

int code_file_open_image(struct code_file **file, const char *path, const void *image, size_t bytes)
{
	struct code_file *new = file_new(path);
	int err;

	*file = NULL;
	if (!new)
		return -ENOMEM;
	new->image = malloc(bytes + 1);
	if (!new->image) {
		code_file_close(new);
		return -ENOMEM;
	}
	memcpy(new->image, image, bytes);
	new->file_bytes = bytes;
	err = file_load(new);
	if (err) {
		code_file_close(new);
		return err;
	}
	*file = new;
	return 0;
}

int code_file_beat(const struct code_file *file, size_t done, size_t total)
{
	return file->pulse.beat ? file->pulse.beat(done, total, file->pulse.data) : 0;
}

int code_file_rename(struct code_file *file, const char *name)
{
	char *copy = strdup(name);

	if (!copy)
		return -ENOMEM;
	free(file->name);
	file->name = copy;
	return 0;
}

void code_file_close(struct code_file *file)
{
	if (!file)
		return;
	code_dwarf_close(file->dwarf);
	code_file_close(file->debug);
	code_file_close(file->packed);
	for (size_t i = 0; i < file->section_count; i++)
		free(file->contents[i]);
	free(file->contents);
	free(file->sections);
	free(file->segments);
	free(file->image);
	if (file->fd >= 0)
		close(file->fd);
	free(file->root);
	free(file->name);
	free(file->path);
	free(file);
}

const struct code_segment *code_file_segment(const struct code_file *file, uint64_t address)
{
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct code_segment *segment = &file->segments[i];

		if (segment->type == PT_LOAD && address >= segment->address &&
		    address - segment->address < segment->bytes)
			return segment;
	}
	return NULL;
}

int code_file_read(const struct code_file *file, uint64_t address, void *buffer, size_t bytes)
{
	const struct code_segment *segment = code_file_segment(file, address);
	uint64_t at, there;

	if (!segment || bytes > segment->bytes - (address - segment->address))
		return -EFAULT;
	at = address - segment->address;
	there = at < segment->file_bytes ? segment->file_bytes - at : 0;
	there = there < bytes ? there : bytes;
	memset((char *)buffer + there, 0, bytes - there);
	return there ? read_at(file, segment->offset + at, buffer, there) : 0;
}

static int cfi_read(void *data, uint64_t address, void *to, size_t bytes)
{
	return code_file_read(data, address, to, bytes);
}

int code_file_cfi(const struct code_file *file, uint64_t address, struct cfi_reader *reader,
		  struct cfi_function *function)
{
	const struct code_segment *header = NULL;

	*reader = (struct cfi_reader){ cfi_read, (void *)file };
	for (size_t i = 0; i < file->segment_count; i++)
		if (file->segments[i].type == PT_GNU_EH_FRAME)
			header = &file->segments[i];
	return header && !cfi_find(reader, header->address, address, function) ? 0 : -ENOENT;
}

int code_file_is_text(const struct code_file *file, uint64_t address, uint64_t bytes)
{
	const struct code_segment *segment = code_file_segment(file, address);
	uint64_t there;

	if (!segment || !(segment->flags & PF_X))
		return 0;
	there = file->is_debug ? segment->bytes : segment->file_bytes;
	return address - segment->address < there && bytes <= there - (address - segment->address);
}

const struct code_section *code_file_section(const struct code_file *file, const char *name)
{
	for (size_t i = 0; i < file->section_count; i++)
		if (!strcmp(file->sections[i].name, name))
			return &file->sections[i];
	return NULL;
}

const struct code_section *code_file_section_at(const struct code_file *file, uint64_t address)
{
	for (size_t i = 0; i < file->section_count; i++) {
		const struct code_section *section = &file->sections[i];

		if (section->flags & SHF_ALLOC && address >= section->address &&
		    address - section->address < section->bytes)
			return section;
	}
	return NULL;
}

/* How much may still be read: a forged table's sections overlap, and hold the file many times. */
static uint64_t content_room(const struct code_file *file)
{
	uint64_t most = file->file_bytes < CODE_SECTION_MAX_BYTES / 2 ? 2 * file->file_bytes
								      : CODE_SECTION_MAX_BYTES;

	return most - file->content_bytes;
}

int code_file_content(struct code_file *file, const struct code_section *section,
		      const void **content, size_t *bytes)
{
	char *copy = file->contents[section->index];
	int err;

	*bytes = section->bytes;
	*content = copy;
	if (copy)
		return 0;
	if (section->type == SHT_NOBITS || section->type == SHT_NULL ||
	    section->flags & SHF_COMPRESSED)
		return -ENOENT;
	if (section->bytes > content_room(file))
		return -EFBIG;
	if (section->offset > file->file_bytes ||
	    section->bytes > file->file_bytes - section->offset)
		return -WM_E_NOT_ELF;
	copy = malloc(section->bytes + 1);
	if (!copy)
		return -ENOMEM;
	err = read_at(file, section->offset, copy, section->bytes);
	if (err) {
		free(copy);
		return err;
	}
	copy[section->bytes] = 0;
	file->contents[section->index] = copy;
	file->content_bytes += section->bytes;
	*content = copy;
	return 0;
}
