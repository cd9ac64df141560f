/* SPDX-License-Identifier: MIT */
#include "inside/marker/module.h"

#include "abi/site.h"
#include "base/notes.h"
#include "base/site_table.h"
#include "inside/marker/rule.h"
#include "inside/patch/sort.h"
#include "inside/runtime/heap.h"

#include <waymark/error.h>
#include <waymark/marker.h>

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define PHDRS_MAX 128
#define NOTES_BYTES_MAX 65536u
#define PAGE_BYTES 4096u

struct table_place {
	uintptr_t note; /* of the note's description; 0: none */
	struct wm_site_note bounds;
};

/* ---- the table of sites (abi/site.h) ---- */

/* Texts lie together in .rodata, so a page that was read serves many of them. */
struct reading {
	struct module *module;
	const struct text *text;
	uintptr_t page; /* whose bytes are in `bytes`; 0: none */
	unsigned char bytes[PAGE_BYTES];
	size_t texts_room;
};

/* The segment that holds all of [start, start + bytes) and allows `prot`; NULL if none does. */
static const struct segment *find_segment(const struct module *module, uintptr_t start,
					  size_t bytes, int prot)
{
	for (unsigned int i = 0; i < module->segment_count; i++) {
		const struct segment *segment = &module->segments[i];

		if (start >= segment->start && start < segment->end &&
		    bytes <= segment->end - start && (segment->prot & prot) == prot)
			return segment;
	}
	return NULL;
}

static int read_byte(struct reading *reading, uintptr_t at, char *byte)
{
	uintptr_t page = at & ~(uintptr_t)(PAGE_BYTES - 1);

	if (!reading->page || reading->page != page) {
		reading->page = 0;
		if (text_read(reading->text, page, reading->bytes, PAGE_BYTES))
			return -EFAULT;
		reading->page = page;
	}
	*byte = (char)reading->bytes[at - page];
	return 0;
}

static int grow_texts(struct reading *reading)
{
	struct module *module = reading->module;
	size_t room = reading->texts_room ? reading->texts_room * 2 : 65536;
	char *texts = heap_alloc(room);

	if (!texts)
		return -ENOMEM;
	if (module->texts)
		memcpy(texts, module->texts, reading->texts_room); /* with the text half read */
	heap_free(module->texts, reading->texts_room);
	module->texts = texts;
	reading->texts_room = room;
	return 0;
}

/*
 * Append a site's text to the module's texts. Returns its length with NUL, -ENOMEM, or
 * -WM_E_MODULE_DAMAGED if it leaves its segment or is too long.
 */
static long add_text(struct reading *reading, uintptr_t at)
{
	struct module *module = reading->module;
	const struct segment *segment = find_segment(module, at, 1, PROT_READ);
	size_t bytes = 0;
	char byte;

	do {
		if (!segment || at + bytes >= segment->end || bytes >= SITE_TEXT_MAX ||
		    read_byte(reading, at + bytes, &byte))
			return -WM_E_MODULE_DAMAGED;
		if (module->texts_bytes + bytes >= reading->texts_room && grow_texts(reading))
			return -ENOMEM;
		module->texts[module->texts_bytes + bytes++] = byte;
	} while (byte);
	module->texts_bytes += bytes;
	return (long)bytes;
}

/* KIND WAY \n SUBSYSTEM \n EVENT \n FILE \n LINE \n FIELDS */
static int check_text(struct site *site)
{
	const char *subsystem = site->text + 3, *colon, *end, *at;

	if (site->text_bytes < 8 || !memchr("mibe", site->text[0], 4) || site->text[2] != '\n' ||
	    (site->text[1] != 'j' && site->text[1] != 'p'))
		return -WM_E_MODULE_DAMAGED;
	colon = strchr(subsystem, '\n');
	end = colon ? strchr(colon + 1, '\n') : NULL;
	if (!end || colon == subsystem || end == colon + 1 || end - subsystem >= RULE_BYTES_MAX)
		return -WM_E_MODULE_DAMAGED;
	for (at = subsystem; at < end; at++) {
		if (*at == ':' || (at != colon && (unsigned char)*at <= ' '))
			return -WM_E_MODULE_DAMAGED;
	}
	at = strchr(end + 1, '\n');
	at = at ? strchr(at + 1, '\n') : NULL;
	if (!at)
		return -WM_E_MODULE_DAMAGED;
	site->fields_at = (uint32_t)(at + 1 - site->text);
	site->kind = site->text[0];
	site->portable = site->text[1] == 'p';
	site->name_bytes = (uint16_t)(end - subsystem);
	return 0;
}

static int check_types(const uint8_t *types)
{
	int ended = 0;

	for (unsigned int i = 0; i < WM_FIELDS_MAX; i++) {
		uint8_t type = types[i] & (uint8_t)~WM_TYPE_ARRAY;

		/* strings and byte runs are no elements */
		if (type > WM_TYPE_CHAR || (ended && types[i]) ||
		    (type != types[i] && !site_type_bytes(type)))
			return -WM_E_MODULE_DAMAGED;
		ended |= !types[i];
	}
	return 0;
}

/* The instruction and where it jumps to. */
static int check_code(struct site *site, uintptr_t at, const struct wm_site *entry)
{
	const struct segment *segment;
	uintptr_t cold = at + offsetof(struct wm_site, cold) + (uintptr_t)(intptr_t)entry->cold;
	intptr_t displacement;

	if (!entry->site)
		return site->kind == 'e' && !entry->cold ? 0 : -WM_E_MODULE_DAMAGED;
	site->address = at + (uintptr_t)(intptr_t)entry->site;
	segment = find_segment(site->module, site->address, SITE_BYTES, PROT_EXEC);
	if (!segment || !find_segment(site->module, cold, 1, PROT_EXEC))
		return -WM_E_MODULE_DAMAGED;
	displacement = (intptr_t)(cold - site->address - SITE_BYTES);
	if (displacement != (int32_t)displacement)
		return -WM_E_MODULE_DAMAGED;
	site->displacement = (int32_t)displacement;
	site->prot = (uint8_t)segment->prot;
	return 0;
}

static int check_entry(struct reading *reading, struct site *site, uintptr_t at,
		       const struct wm_site *entry)
{
	struct module *module = reading->module;
	size_t offset = module->texts_bytes;
	long bytes;
	int error;

	site->module = module;
	site->record = at + offsetof(struct wm_site, record) + (uintptr_t)(intptr_t)entry->record;
	if (site->record < module->records ||
	    (site->record - module->records) % sizeof(struct wm_record) ||
	    (site->record - module->records) / sizeof(struct wm_record) >= module->record_count)
		return -WM_E_MODULE_DAMAGED;
	bytes = add_text(reading,
			 at + offsetof(struct wm_site, text) + (uintptr_t)(intptr_t)entry->text);
	if (bytes < 0)
		return (int)bytes;
	site->text = module->texts + offset; /* texts may move yet: see set_texts() */
	site->text_bytes = (uint32_t)bytes;
	memcpy(site->types, entry->types, sizeof site->types);
	error = check_text(site);
	if (!error)
		error = check_types(site->types);
	if (!error)
		error = check_code(site, at, entry);
	return error;
}

static int is_same_marker(const struct site *a, const struct site *b)
{
	return a->kind == b->kind && a->portable == b->portable && a->name_bytes == b->name_bytes &&
	       !memcmp(a->text + 3, b->text + 3, a->name_bytes);
}

static const char *fields_of(const struct site *site)
{
	return site->text + site->fields_at;
}

/* The site's fields have no names: readers then number them. */
static void drop_names(struct module *module, struct site *site)
{
	module->texts[site->text - module->texts + site->fields_at] = 0;
	site->text_bytes = site->fields_at + 1;
}

/*
 * Two sites must not overlap, and sites that share a record must be one marker. If only their field
 * types differ, that is the program's error, which is reported when a tool arms the marker: both
 * are marked. If only their field names differ (an older marker.h had one record for each marker
 * name), a hit does not show which names it has: such sites lose them.
 */
static int check_together(struct module *module)
{
	struct site **first = heap_alloc((module->record_count + 1) * sizeof(struct site *));
	int error = first ? 0 : -ENOMEM;

	for (uint32_t i = 0; !error && i < module->site_count; i++) {
		struct site *site = &module->sites[i];
		size_t record = (site->record - module->records) / sizeof(struct wm_record);

		if (i && site[-1].address && site->address - site[-1].address < SITE_BYTES)
			error = -WM_E_MODULE_DAMAGED;
		if (!first[record])
			first[record] = site;
		else if (!is_same_marker(site, first[record]))
			error = -WM_E_MODULE_DAMAGED;
		else if (memcmp(site->types, first[record]->types, sizeof site->types))
			site->conflict = first[record]->conflict = 1;
		else if (strcmp(fields_of(site), fields_of(first[record])))
			drop_names(module, first[record]);
	}
	/* both go to all that share the record */
	for (uint32_t i = 0; !error && i < module->site_count; i++) {
		struct site *site = &module->sites[i];

		const struct site
			*other = first[(site->record - module->records) / sizeof(struct wm_record)];

		site->conflict |= other->conflict;
		if (!*fields_of(other))
			drop_names(module, site);
	}
	heap_free(first, (module->record_count + 1) * sizeof(struct site *));
	return error;
}

static int read_entries(struct reading *reading, uintptr_t start)
{
	struct module *module = reading->module;
	size_t bytes = module->site_count * sizeof(struct wm_site);
	struct wm_site *entries = heap_alloc(bytes);
	int error = entries ? text_read(reading->text, start, entries, bytes) : -ENOMEM;
	uint32_t i;

	for (i = 0; !error && i < module->site_count; i++)
		error = check_entry(reading, &module->sites[i], start + i * sizeof(struct wm_site),
				    &entries[i]);
	heap_free(entries, bytes);
	return error;
}

/* The texts' block has its final place: point into it, in the order in which they were added. */
static void set_texts(struct reading *reading)
{
	struct module *module = reading->module;
	const char *at = module->texts;

	for (uint32_t i = 0; i < module->site_count; i++) {
		module->sites[i].text = at;
		at += module->sites[i].text_bytes;
	}
	module->texts_bytes = reading->texts_room; /* as it was asked for: heap_free() */
}

/* Where the two sections lie, from the note; 0 where they can be. */
static int check_bounds(struct module *module, const struct table_place *place, uintptr_t *start)
{
	const struct wm_site_note *bounds = &place->bounds;
	uintptr_t note = place->note;
	uintptr_t stop = note + offsetof(struct wm_site_note, sites_stop) +
			 (uintptr_t)(intptr_t)bounds->sites_stop;
	uintptr_t records_stop = note + offsetof(struct wm_site_note, markers_stop) +
				 (uintptr_t)(intptr_t)bounds->markers_stop;
	size_t bytes, records_bytes;

	*start = note + (uintptr_t)(intptr_t)bounds->sites_start;
	module->records = note + offsetof(struct wm_site_note, markers_start) +
			  (uintptr_t)(intptr_t)bounds->markers_start;
	bytes = stop - *start;
	records_bytes = records_stop - module->records;
	if (!bytes && *start == stop)
		return 0;
	if (bytes % sizeof(struct wm_site) || bytes / sizeof(struct wm_site) > MODULE_SITES_MAX ||
	    !find_segment(module, *start, bytes, PROT_READ))
		return -WM_E_MODULE_DAMAGED;
	if (!records_bytes || module->records % 8 || records_bytes % sizeof(struct wm_record) ||
	    !find_segment(module, module->records, records_bytes, PROT_READ | PROT_WRITE) ||
	    (module->records < module->relro.end && records_stop > module->relro.start))
		return -WM_E_MODULE_DAMAGED;
	module->record_count = (uint32_t)(records_bytes / sizeof(struct wm_record));
	module->site_count = (uint32_t)(bytes / sizeof(struct wm_site));
	return 0;
}

static int read_at(struct module *module, const struct text *text, const struct table_place *place)
{
	struct reading reading = { .module = module, .text = text };
	uintptr_t start = 0;
	uint32_t count;
	int error;

	error = check_bounds(module, place, &start);
	count = module->site_count;
	if (!error && count) {
		module->sites = heap_alloc(count * sizeof *module->sites);
		error = module->sites ? read_entries(&reading, start) : -ENOMEM;
	}
	if (!error && count) {
		set_texts(&reading);
		error = sort_by_address(module->sites, count, sizeof *module->sites);
	}
	if (!error && count)
		error = check_together(module);
	if (!error)
		return 0;
	heap_free(module->sites, count * sizeof *module->sites);
	heap_free(module->texts, reading.texts_room);
	module->sites = NULL;
	module->texts = NULL;
	module->texts_bytes = 0;
	module->site_count = module->record_count = 0;
	return error == -ENOMEM ? error : -WM_E_MODULE_DAMAGED;
}

/* Try each place in a segment where a table may be: 0 once one is right. */
static int seek_in(struct module *module, const struct text *text, const struct table_place *place,
		   const struct segment *segment, unsigned int *tries)
{
	struct site_table table = site_table_of(&place->bounds);
	uintptr_t start = place->note + (uintptr_t)(intptr_t)place->bounds.sites_start;
	size_t bytes = PAGE_BYTES + sizeof(struct wm_site), some;
	unsigned char *page = heap_alloc(bytes);
	int error = page ? -WM_E_MODULE_DAMAGED : -ENOMEM;

	for (uintptr_t at = (segment->start + 7) & ~(uintptr_t)7;
	     error == -WM_E_MODULE_DAMAGED && at < segment->end; at += PAGE_BYTES) {
		some = segment->end - at < bytes ? segment->end - at : bytes;
		if (text_read(text, at, page, some))
			break;
		for (size_t i = 0; error == -WM_E_MODULE_DAMAGED && *tries < SITE_TABLE_TRIES &&
				   i + sizeof(struct wm_site) <= some;
		     i += 8) {
			struct table_place moved = *place;
			struct wm_site first;

			memcpy(&first, page + i, sizeof first);
			if (!site_table_leads(&table, &first, 0))
				continue;
			(*tries)++;
			moved.note += at + i - start;
			error = read_at(module, text, &moved);
		}
	}
	heap_free(page, bytes);
	return error;
}

/*
 * Fill in module->sites and what belongs to them. Returns 0 or -ENOMEM. Where the note was moved,
 * the table is found by its entries (base/site_table.h). A table that can't be right leaves no site
 * and -WM_E_MODULE_DAMAGED in module->error.
 */
static int read_table(struct module *module, const struct text *text,
		      const struct table_place *place)
{
	unsigned int tries = 0;
	int error = read_at(module, text, place);

	/* the note may have been moved, and the table not: base/site_table.h */
	for (unsigned int i = 0; error == -WM_E_MODULE_DAMAGED && i < module->segment_count; i++)
		if ((module->segments[i].prot & (PROT_READ | PROT_WRITE)) == PROT_READ)
			error = seek_in(module, text, place, &module->segments[i], &tries);
	module->error = error == -WM_E_MODULE_DAMAGED ? error : 0;
	return error == -ENOMEM ? error : 0;
}

/* ---- the module ---- */

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

/* `at`: of the note's body. */
static void note_found(struct module *module, const struct note *note, uintptr_t at,
		       struct table_place *table)
{
	if (notes_is(note, "GNU", NT_GNU_BUILD_ID)) {
		module->build_id_bytes = (uint8_t)(note->body_bytes < sizeof module->build_id
							   ? note->body_bytes
							   : sizeof module->build_id);
		memcpy(module->build_id, note->body, module->build_id_bytes);
		module->build_id_at = at;
	}
	if (notes_is(note, SITE_NOTE_OWNER, SITE_NOTE_TYPE) &&
	    note->body_bytes == sizeof(struct wm_site_note) && !table->note) {
		table->note = at; /* a module may hold several equal notes: the first serves */
		memcpy(&table->bounds, note->body, sizeof table->bounds);
	}
}

static int read_notes(struct module *module, const struct text *text, const Elf64_Phdr *phdr,
		      struct table_place *table)
{
	size_t bytes = phdr->p_filesz, at = 0;
	uintptr_t start = module->base + phdr->p_vaddr;
	unsigned char *notes;
	struct note note;

	if (bytes > NOTES_BYTES_MAX || bytes < sizeof(Elf64_Nhdr))
		return 0;
	notes = heap_alloc(bytes);
	if (!notes)
		return -ENOMEM;
	if (text_read(text, start, notes, bytes))
		bytes = 0;
	while (notes_next(notes, bytes, notes_padding(phdr), &at, &note))
		note_found(module, &note, start + (uintptr_t)(note.body - notes), table);
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
		error = read_table(module, text, &table);
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
	/* the text is KIND WAY \n SUBSYSTEM \n EVENT \n ...; check_text() checked its lengths */
	memcpy(name, site->text + 3, site->name_bytes);
	*(char *)memchr(name, '\n', site->name_bytes) = ':';
	name[site->name_bytes] = 0;
}
