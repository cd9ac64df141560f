/* SPDX-License-Identifier: MIT */
#include "target/code/module_image.h"

#include "base/sorted.h"
#include "target/code/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define IMAGE_MAX_BYTES (2ull << 30)

static int parts_load(struct image *image, struct code_file *file)
{
	uint64_t bytes = 0;

	image->parts = calloc(file->segment_count + 1, sizeof(*image->parts));
	if (!image->parts)
		return -ENOMEM;
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct code_segment *segment = &file->segments[i];
		struct image_part *part = &image->parts[image->part_count];
		int err;

		if (segment->type != PT_LOAD || !segment->file_bytes)
			continue;
		/*
		 * forged segments may lie across each other, and be far more together than the file
		 */
		if (segment->file_bytes > IMAGE_MAX_BYTES - bytes ||
		    segment->address > UINT64_MAX - segment->file_bytes)
			return -WM_E_NOT_ELF;
		bytes += segment->file_bytes;
		part->data = malloc(segment->file_bytes);
		if (!part->data)
			return -ENOMEM;
		part->address = segment->address;
		part->bytes = segment->file_bytes;
		part->is_code = segment->flags & PF_X;
		image->part_count++;
		err = code_file_read(file, part->address, part->data, part->bytes);
		if (err)
			return err == -EFAULT ? -WM_E_NOT_ELF : err;
	}
	sorted_make(image->parts, image->part_count, sizeof(*image->parts));
	for (size_t i = 1; i < image->part_count; i++)
		if (image->parts[i].address - image->parts[i - 1].address <
		    image->parts[i - 1].bytes)
			return -WM_E_NOT_ELF;
	return 0;
}

/* One range of code, cut to what is there. */
static void range_add(struct image *image, uint64_t address, uint64_t bytes)
{
	size_t left;

	if (!bytes || !image_at(image, address, &left))
		return;
	image->code[image->code_count++] = (struct image_range){
		address, address + (bytes < left ? bytes : left)
	};
}

/* Sections where they cover something, for a segment may hold constants beside its code. */
static int code_find(struct image *image, const struct code_file *file)
{
	size_t kept = 0;

	image->code = calloc(file->section_count + image->part_count + 1, sizeof(*image->code));
	if (!image->code)
		return -ENOMEM;
	for (size_t i = 0; i < file->section_count; i++) {
		const struct code_section *section = &file->sections[i];

		if ((section->flags & (SHF_ALLOC | SHF_EXECINSTR)) == (SHF_ALLOC | SHF_EXECINSTR) &&
		    section->type != SHT_NOBITS)
			range_add(image, section->address, section->bytes);
	}
	if (!image->code_count)
		for (size_t i = 0; i < image->part_count; i++)
			if (image->parts[i].is_code)
				range_add(image, image->parts[i].address, image->parts[i].bytes);
	sorted_make(image->code, image->code_count, sizeof(*image->code));
	/* a forged table's ranges may lie across each other */
	for (size_t i = 0; i < image->code_count; i++) {
		struct image_range range = image->code[i];

		if (kept && range.start < image->code[kept - 1].end)
			range.start = image->code[kept - 1].end;
		if (range.start < range.end)
			image->code[kept++] = range;
	}
	image->code_count = kept;
	return 0;
}

/*
 * Find the tables where compilers list the filler at functions' entries. With endbr64 the filler is
 * behind the entry: an address of it anywhere else in data would count as a jump's target.
 */
static int tables_find(struct image *image, const struct code_file *file)
{
	static const char *const names[] = { "__patchable_function_entries", "__mcount_loc" };
	size_t count = 0;

	image->tables = calloc(file->section_count + 1, sizeof(*image->tables));
	if (!image->tables)
		return -ENOMEM;
	for (size_t i = 0; i < file->section_count; i++) {
		const struct code_section *section = &file->sections[i];

		for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
			if (!strcmp(section->name, names[k]) &&
			    section->bytes <= UINT64_MAX - section->address)
				image->tables[count++] = (struct image_range){
					section->address, section->address + section->bytes
				};
	}
	image->table_count = count;
	return 0;
}

bool image_is_table(const struct image *image, uint64_t address)
{
	for (size_t i = 0; i < image->table_count; i++)
		if (address >= image->tables[i].start && address < image->tables[i].end)
			return true;
	return false;
}

/* .eh_frame, by the header that the program's own unwinder would use, else by its section. */
static void frames_find(struct image *image, const struct code_file *file)
{
	const struct code_section *section = code_file_section(file, ".eh_frame");
	uint8_t head[8];
	int32_t offset;

	image->frames_end = UINT64_MAX;
	for (size_t i = 0; i < file->segment_count; i++)
		if (file->segments[i].type == PT_GNU_EH_FRAME)
			image->frames_hdr = file->segments[i].address;
	/*
	 * version 1, and .eh_frame as a signed offset of 4 bytes from its own field: what linkers
	 * write
	 */
	if (image->frames_hdr && !image_read(image, image->frames_hdr, head, sizeof(head)) &&
	    head[0] == 1 && head[1] == 0x1b) {
		memcpy(&offset, head + 4, sizeof(offset));
		image->frames = image->frames_hdr + 4 + (uint64_t)(int64_t)offset;
	} else if (section && section->type != SHT_NOBITS) {
		image->frames = section->address;
	}
	/* crtend's mark of the end may be missing */
	if (section && section->address == image->frames)
		image->frames_end = section->address + section->bytes;
}

/*
 * Where the relocations lie, and what they refer to. A table that ends early is taken as far as it
 * goes.
 */
static void dynamic_find(struct image *image, const struct code_file *file)
{
	uint64_t soname = 0;
	Elf64_Dyn entry;

	for (size_t i = 0; i < file->segment_count; i++) {
		uint64_t at = file->segments[i].address;

		if (file->segments[i].type != PT_DYNAMIC)
			continue;
		for (; !image_read(image, at, &entry, sizeof(entry)); at += sizeof(entry)) {
			if (entry.d_tag == DT_NULL)
				break;
			if (entry.d_tag == DT_RELA)
				image->relocations = entry.d_un.d_ptr;
			if (entry.d_tag == DT_RELASZ)
				image->relocation_bytes = entry.d_un.d_val;
			if (entry.d_tag == DT_JMPREL)
				image->plt_relocations = entry.d_un.d_ptr;
			if (entry.d_tag == DT_PLTRELSZ)
				image->plt_relocation_bytes = entry.d_un.d_val;
			if (entry.d_tag == DT_SYMTAB)
				image->symbols = entry.d_un.d_ptr;
			if (entry.d_tag == DT_STRTAB)
				image->texts = entry.d_un.d_ptr;
			if (entry.d_tag == DT_SONAME)
				soname = entry.d_un.d_val;
		}
	}
	if (soname)
		image->soname = image->texts + soname;
}

int image_load(struct image *image, struct code_file *file)
{
	int err;

	*image = (struct image){ .is_fixed = file->header.e_type == ET_EXEC };
	err = parts_load(image, file);
	if (!err)
		err = code_find(image, file);
	if (!err)
		err = tables_find(image, file);
	if (!err) {
		frames_find(image, file);
		dynamic_find(image, file);
	}
	return err;
}

void image_release(struct image *image)
{
	for (size_t i = 0; i < image->part_count; i++)
		free(image->parts[i].data);
	free(image->parts);
	free(image->code);
	free(image->tables);
	*image = (struct image){ 0 };
}

const uint8_t *image_at(const struct image *image, uint64_t address, size_t *left)
{
	for (size_t i = 0; i < image->part_count; i++) {
		const struct image_part *part = &image->parts[i];

		if (address - part->address < part->bytes) {
			*left = part->bytes - (address - part->address);
			return part->data + (address - part->address);
		}
	}
	*left = 0;
	return NULL;
}

int image_read(const struct image *image, uint64_t address, void *buffer, size_t bytes)
{
	size_t left;
	const uint8_t *from = image_at(image, address, &left);

	if (!from || left < bytes)
		return -EFAULT;
	memcpy(buffer, from, bytes);
	return 0;
}

const char *image_text(const struct image *image, uint64_t address)
{
	size_t left;
	const uint8_t *at = image_at(image, address, &left);

	return at && memchr(at, 0, left) ? (const char *)at : "";
}

const struct image_range *image_code_at(const struct image *image, uint64_t address)
{
	for (size_t i = 0; i < image->code_count; i++)
		if (address >= image->code[i].start && address < image->code[i].end)
			return &image->code[i];
	return NULL;
}
