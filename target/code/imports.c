/* SPDX-License-Identifier: MIT */
/* What a module has of the functions of others, and its own where others may take their place. */
#include "target/code/gather.h"

#include "base/array.h"
#include "base/sorted.h"
#include "target/code/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LOOKERS_MAX 64 /* more are forged, or one of them has a pointer to it */

void imports_gather_one(struct gather *gather, struct sweep_import import)
{
	struct sweep *sweep = gather->sweep;

	if (array_grow(&sweep->imports, &sweep->import_room, sweep->import_count + 1,
		       sizeof(*sweep->imports))) {
		gather->err = -ENOMEM;
		return;
	}
	sweep->imports[sweep->import_count++] = import;
}

static bool is_import(const Elf64_Rela *rela)
{
	uint32_t type = ELF64_R_TYPE(rela->r_info);

	return ELF64_R_SYM(rela->r_info) &&
	       (type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT || type == R_X86_64_64);
}

/* Functions of other modules are known by libc's names for them. */
static void import_take(struct gather *gather, const Elf64_Rela *rela)
{
	const struct image *image = &gather->sweep->image;
	struct sweep_import import = { .at = rela->r_offset };
	Elf64_Sym symbol;

	if (image_read(image, image->symbols + ELF64_R_SYM(rela->r_info) * sizeof(symbol), &symbol,
		       sizeof(symbol)))
		return;
	import.name = image_text(image, image->texts + symbol.st_name);
	if (symbol.st_shndx != SHN_UNDEF) {
		/* that of an indirect function is of what chooses it */
		if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC)
			import.address = symbol.st_value;
	} else if (unpatchable_name_looks(import.name + strspn(import.name, "_"))) {
		import.looks = true;
		import.profiles = strstr(import.name, "mcount") || strstr(import.name, "fentry") ||
				  strstr(import.name, "acktrace");
		/* what returns twice is called by its name */
		gather->has_lookers |= !strncmp(import.name, "dl", 2);
	}
	import.is_pointer = ELF64_R_TYPE(rela->r_info) == R_X86_64_64 ||
			    (symbol.st_shndx == SHN_UNDEF && symbol.st_value);
	imports_gather_one(gather, import);
}

static void table_take(struct gather *gather, uint64_t table, uint64_t bytes)
{
	Elf64_Rela rela;

	for (uint64_t at = 0; at + sizeof(rela) <= bytes; at += sizeof(rela)) {
		if (gather->err ||
		    image_read(&gather->sweep->image, table + at, &rela, sizeof(rela)))
			return;
		if (is_import(&rela))
			import_take(gather, &rela);
	}
}

void imports_gather(struct gather *gather)
{
	struct sweep *sweep = gather->sweep;
	const struct image *image = &sweep->image;

	table_take(gather, image->relocations, image->relocation_bytes);
	table_take(gather, image->plt_relocations, image->plt_relocation_bytes);
	sorted_make(sweep->imports, sweep->import_count, sizeof(*sweep->imports));
}

/* ---- pointers to them ---- */

static bool is_looker(const struct address_list *lookers, uint64_t address)
{
	for (size_t i = 0; i < lookers->count; i++)
		if (lookers->all[i] == address)
			return true;
	return false;
}

/* Whether a jump leads to a function that looks at its return address. */
static bool tail_looks(const struct sweep *sweep, const struct address_list *lookers,
		       uint64_t target)
{
	const struct sweep_import *import = sweep_import_at(sweep, target);

	if (!import)
		import = sweep_stub_import(sweep, target);
	if (import && import->looks)
		return !import->profiles;
	return is_looker(lookers, import ? import->address : target);
}

/* In the procedure linkage table, whose stubs are no functions of the module's. */
static bool is_stub(const struct gather *gather, uint64_t address)
{
	static const char *const names[] = { ".plt", ".plt.got", ".plt.sec" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const struct code_section *section = code_file_section(gather->file, names[i]);

		if (section && address - section->address < section->bytes)
			return true;
	}
	return false;
}

/* Functions of the module's own that end in a jump to one, and those that end in a jump to them. */
static void lookers_find(struct gather *gather, struct address_list *lookers)
{
	const struct sweep *sweep = gather->sweep;
	size_t before;

	do {
		before = lookers->count;
		for (size_t i = 0; i < gather->tail_count && lookers->count < LOOKERS_MAX; i++) {
			const struct frame *frame = frames_at(&sweep->frames, gather->tails[i].at);

			if (frame && !is_looker(lookers, frame->start) &&
			    tail_looks(sweep, lookers, gather->tails[i].target) &&
			    !is_stub(gather, frame->start))
				sweep_address_add(gather, lookers, frame->start);
		}
	} while (lookers->count > before && !gather->err);
}

static bool is_in_data(const struct gather *gather, const struct address_list *lookers)
{
	const struct image *image = &gather->sweep->image;
	Elf64_Rela rela;

	for (uint64_t at = 0; at + sizeof(rela) <= image->relocation_bytes; at += sizeof(rela)) {
		if (image_read(image, image->relocations + at, &rela, sizeof(rela)))
			break;
		if (ELF64_R_TYPE(rela.r_info) == R_X86_64_RELATIVE &&
		    is_looker(lookers, (uint64_t)rela.r_addend))
			return true;
	}
	for (size_t i = 0; i < image->part_count; i++) {
		const struct image_part *part = &image->parts[i];
		uint64_t word;

		for (size_t at = (8 - part->address % 8) % 8;
		     !part->is_code && at + sizeof(word) <= part->bytes; at += sizeof(word)) {
			memcpy(&word, part->data + at, sizeof(word));
			/* the symbols end where their names begin */
			if (is_looker(lookers, word) && (part->address + at < image->symbols ||
							 part->address + at >= image->texts))
				return true;
		}
	}
	return false;
}

static bool has_pointer(const struct gather *gather, const struct address_list *lookers)
{
	const struct sweep *sweep = gather->sweep;

	for (size_t i = 0; i < sweep->import_count; i++)
		if (sweep->imports[i].is_pointer && is_looker(lookers, sweep->imports[i].address))
			return true;
	for (size_t i = 0; i < gather->lea_count; i++)
		if (is_looker(lookers, gather->leas[i].target))
			return true;
	return is_in_data(gather, lookers);
}

void imports_gather_pointers(struct gather *gather)
{
	struct sweep *sweep = gather->sweep;
	struct address_list lookers = { 0 };
	const char *name = NULL;

	if (!gather->has_lookers)
		return;
	for (size_t i = 0; i < sweep->import_count; i++) {
		const struct sweep_import *import = &sweep->imports[i];

		if (!import->looks || import->profiles)
			continue;
		name = import->name;
		if (import->is_pointer)
			sweep->looking_pointer = name;
	}
	lookers_find(gather, &lookers);
	if (!sweep->looking_pointer && lookers.count &&
	    (lookers.count == LOOKERS_MAX || has_pointer(gather, &lookers)))
		sweep->looking_pointer = name;
	free(lookers.all);
}
