/* SPDX-License-Identifier: MIT */
#include "inside/marker/module.h"

#include "abi/site.h"
#include "inside/marker/module_sites.h"
#include "inside/runtime/heap.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define PHDRS_MAX 128
#define NOTES_BYTES_MAX 65536u

static int prot_of(uint32_t flags)
{
	return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) |
	       (flags & PF_X ? PROT_EXEC : 0);
}

/* A segment's place; false when it would wrap around. */
static int segment_of(const struct module *module, const Elf64_Phdr *phdr, struct segment *segment)
{
	*segment = (struct segment){ .start = module->base + phdr->p_vaddr,
				     .prot = prot_of(phdr->p_flags) };
	segment->end = segment->start + phdr->p_memsz;
	return segment->end >= segment->start;
}

static int read_phdrs(const struct text *text, struct module_place *place, Elf64_Phdr *phdrs)
{
	Elf64_Ehdr head;

	if (!place->phdrs) {
		if (text_read(text, place->base, &head, sizeof head))
			return -EFAULT;
		if (memcmp(head.e_ident, ELFMAG, SELFMAG) || head.e_ident[EI_CLASS] != ELFCLASS64 ||
		    head.e_machine != EM_X86_64 || head.e_phentsize != sizeof *phdrs)
			return -ENOEXEC;
		place->phdrs = place->base + head.e_phoff;
		place->phdr_count = head.e_phnum;
	}
	if (place->phdr_count > PHDRS_MAX)
		return -ENOEXEC;
	return text_read(text, place->phdrs, phdrs, place->phdr_count * sizeof *phdrs);
}

static void note_found(struct module *module, const Elf64_Nhdr *note, const char *name,
		       uintptr_t at, const unsigned char *desc, struct table_place *table)
{
	if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && !memcmp(name, "GNU", 4)) {
		module->build_id_bytes = (uint8_t)(note->n_descsz < sizeof module->build_id
							   ? note->n_descsz
							   : sizeof module->build_id);
		memcpy(module->build_id, desc, module->build_id_bytes);
		module->build_id_at = at;
	}
	if (note->n_type == SITE_NOTE_TYPE && note->n_namesz == sizeof SITE_NOTE_OWNER &&
	    !memcmp(name, SITE_NOTE_OWNER, sizeof SITE_NOTE_OWNER) &&
	    note->n_descsz == sizeof(struct wm_site_note) && !table->note) {
		table->note = at; /* a module may hold several equal notes: the first serves */
		memcpy(&table->bounds, desc, sizeof table->bounds);
	}
}

/* Notes are aligned to 4 bytes, or to 8 in a segment that says so (gABI; .note.gnu.property). */
static int read_notes(struct module *module, const struct text *text, const Elf64_Phdr *phdr,
		      struct table_place *table)
{
	size_t bytes = phdr->p_filesz, align = phdr->p_align == 8 ? 8 : 4, at = 0;
	uintptr_t start = module->base + phdr->p_vaddr;
	unsigned char *notes;

	if (bytes > NOTES_BYTES_MAX || bytes < sizeof(Elf64_Nhdr))
		return 0;
	notes = heap_alloc(bytes);
	if (!notes)
		return -ENOMEM;
	if (text_read(text, start, notes, bytes))
		bytes = 0;
	while (bytes >= sizeof(Elf64_Nhdr) && at <= bytes - sizeof(Elf64_Nhdr)) {
		size_t name = at + sizeof(Elf64_Nhdr), desc, end;
		Elf64_Nhdr note;

		memcpy(&note, notes + at, sizeof note);
		if (note.n_namesz > bytes - name)
			break;
		desc = (name + note.n_namesz + align - 1) & ~(align - 1);
		if (desc > bytes || note.n_descsz > bytes - desc)
			break;
		end = desc + note.n_descsz;
		note_found(module, &note, (const char *)notes + name, start + desc, notes + desc,
			   table);
		at = (end + align - 1) & ~(align - 1);
	}
	heap_free(notes, phdr->p_filesz);
	return 0;
}

static int read_segments(struct module *module, const Elf64_Phdr *phdrs, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		struct segment segment;

		if (phdrs[i].p_type != PT_LOAD && phdrs[i].p_type != PT_GNU_RELRO)
			continue;
		if (!segment_of(module, &phdrs[i], &segment))
			return -ENOEXEC;
		if (phdrs[i].p_type == PT_GNU_RELRO)
			module->relro = segment;
		else if (module->segment_count < MODULE_SEGMENTS_MAX)
			module->segments[module->segment_count++] = segment;
	}
	return 0;
}

int module_read(const struct text *text, const struct module_place *where, const char *path,
		struct module **result)
{
	struct module_place place = *where;
	struct table_place table = { 0 };
	Elf64_Phdr phdrs[PHDRS_MAX];
	struct module *module;
	int error;

	*result = NULL;
	error = read_phdrs(text, &place, phdrs);
	if (error)
		return error;
	module = heap_alloc(sizeof *module);
	if (!module)
		return -ENOMEM;
	module->link = place.link;
	module->base = place.base;
	module->dynamic = place.dynamic;
	module->path_bytes = strlen(path) + 1;
	module->path = heap_copy(path, module->path_bytes);
	error = module->path ? read_segments(module, phdrs, place.phdr_count) : -ENOMEM;
	for (unsigned int i = 0; !error && i < place.phdr_count; i++) {
		if (phdrs[i].p_type == PT_NOTE)
			error = read_notes(module, text, &phdrs[i], &table);
		if (phdrs[i].p_type == PT_GNU_EH_FRAME)
			module->frames = module->base + phdrs[i].p_vaddr;
	}
	if (!error && table.note)
		error = module_table_read(module, text, &table);
	if (error) {
		module_free(module);
		return error;
	}
	*result = module;
	return 0;
}

void module_free(struct module *module)
{
	if (!module)
		return;
	heap_free(module->sites, module->site_count * sizeof *module->sites);
	heap_free(module->texts, module->texts_bytes);
	heap_free(module->path, module->path_bytes);
	heap_free(module, sizeof *module);
}

void module_site_name(const struct site *site, char *name)
{
	/*
	 * the text is KIND WAY \n SUBSYSTEM \n EVENT \n ...; module_sites.c has checked its lengths
	 */
	memcpy(name, site->text + 3, site->name_bytes);
	*(char *)memchr(name, '\n', site->name_bytes) = ':';
	name[site->name_bytes] = 0;
}
