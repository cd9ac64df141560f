/* SPDX-License-Identifier: MIT */
/* A module's notes, and what they lead to: its build id, its marker sites. */
#include "base/elf.h"

#include "abi/release.h"
#include "abi/site.h"
#include "base/notes.h"
#include "base/site_table.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define NOTES_BYTES_MAX (1 << 20)
#define SITES_AT_ONCE 256
#define SEEK_BYTES 65536

/* `address`: of the note's body. */
typedef int note_fn(const struct note *note, uint64_t address, void *data);

static uint64_t round_up(uint64_t value, uint64_t to)
{
	return (value + to - 1) / to * to;
}

static int notes_each(const struct elf *elf, note_fn *fn, void *data)
{
	for (size_t i = 0; i < elf->segment_count; i++) {
		const Elf64_Phdr *segment = &elf->segments[i];
		struct note note;
		uint8_t *bytes;
		size_t at = 0;
		int err;

		if (segment->p_type != PT_NOTE || !segment->p_filesz ||
		    segment->p_filesz > NOTES_BYTES_MAX)
			continue;
		bytes = malloc(segment->p_filesz);
		if (!bytes)
			return -ENOMEM;
		err = elf_read(elf, segment->p_vaddr, bytes, segment->p_filesz);
		while (!err &&
		       notes_next(bytes, segment->p_filesz, notes_padding(segment), &at, &note))
			err = fn(&note, segment->p_vaddr + (uint64_t)(note.body - bytes), data);
		free(bytes);
		if (err)
			return err;
	}
	return 0;
}

struct wanted {
	const char *owner;
	uint32_t type;
	void *body;
	size_t room;
	int bytes;
};

static int wanted_take(const struct note *note, uint64_t address, void *data)
{
	struct wanted *wanted = data;

	(void)address;
	if (!notes_is(note, wanted->owner, wanted->type) || !note->body_bytes)
		return 0;
	wanted->bytes = (int)(note->body_bytes < wanted->room ? note->body_bytes : wanted->room);
	memcpy(wanted->body, note->body, (size_t)wanted->bytes);
	return 1;
}

int elf_note(const struct elf *elf, const char *owner, uint32_t type, void *body, size_t room)
{
	struct wanted wanted = { .owner = owner, .type = type, .body = body, .room = room };

	return notes_each(elf, wanted_take, &wanted) == 1 ? wanted.bytes : 0;
}

int elf_build_id(const struct elf *elf, uint8_t id[ELF_BUILD_ID_BYTES])
{
	return elf_note(elf, ELF_NOTE_GNU, NT_GNU_BUILD_ID, id, ELF_BUILD_ID_BYTES);
}

int elf_release_text(const struct elf *elf, char *text, size_t bytes)
{
	int got = elf_note(elf, "Waymark", RELEASE_NOTE, text, bytes);

	if (!got)
		return -ENOENT;
	text[(size_t)got < bytes ? (size_t)got : bytes - 1] = '\0';
	return 0;
}

struct sites {
	uint64_t start; /* of the table; a module has one, and many equal notes */
	struct site_table table;
	bool has_note;
	unsigned int tries;
	int (*fn)(const struct elf_site *site, void *data);
	void *data;
	char *text;
};

static uint64_t relative(uint64_t field, int32_t distance)
{
	return distance ? field + (uint64_t)(int64_t)distance : 0;
}

static int site_give(const struct elf *elf, struct sites *sites, uint64_t entry,
		     const struct wm_site *raw)
{
	struct elf_site site = {
		.entry = entry,
		.site = relative(entry + offsetof(struct wm_site, site), raw->site),
		.cold = relative(entry + offsetof(struct wm_site, cold), raw->cold),
		.record = relative(entry + offsetof(struct wm_site, record), raw->record),
		.text = sites->text,
	};
	int err;

	memcpy(site.types, raw->types, sizeof(site.types));
	err = elf_read_text(elf, relative(entry + offsetof(struct wm_site, text), raw->text),
			    sites->text, ELF_TEXT_BYTES);
	if (err < 0)
		return err == -E2BIG || err == -WM_E_NOT_ELF ? -WM_E_MODULE_DAMAGED : err;
	return sites->fn(&site, sites->data);
}

/* Each entry refers to a record, and the first to a text. */
static int table_check(const struct elf *elf, const struct sites *sites, uint64_t start)
{
	uint64_t count = sites->table.bytes / sizeof(struct wm_site);
	struct wm_site raw[SITES_AT_ONCE];
	char text[3] = "";

	if (sites->table.bytes % sizeof(raw[0]))
		return -WM_E_MODULE_DAMAGED;
	for (uint64_t done = 0, some; done < count; done += some) {
		uint64_t at = done * sizeof(raw[0]);

		some = count - done < SITES_AT_ONCE ? count - done : SITES_AT_ONCE;
		if (elf_read(elf, start + at, raw, some * sizeof(raw[0])))
			return -WM_E_MODULE_DAMAGED;
		for (uint64_t i = 0; i < some; i++)
			if (!site_table_leads(&sites->table, &raw[i], at + i * sizeof(raw[0])))
				return -WM_E_MODULE_DAMAGED;
		if (!done &&
		    elf_read(elf, relative(start + offsetof(struct wm_site, text), raw[0].text),
			     text, sizeof(text)))
			return -WM_E_MODULE_DAMAGED;
	}
	return memchr("mibe", text[0], 4) && memchr("jp", text[1], 2) && text[2] == '\n'
		       ? 0
		       : -WM_E_MODULE_DAMAGED;
}

/* In one segment; `chunk` has room for SEEK_BYTES and one entry. */
static int segment_seek(const struct elf *elf, struct sites *sites, const Elf64_Phdr *load,
			uint8_t *chunk)
{
	uint64_t entry = sizeof(struct wm_site), start = round_up(load->p_vaddr, 8);
	uint64_t bytes = load->p_filesz - (start - load->p_vaddr);

	if (load->p_filesz < start - load->p_vaddr)
		return -WM_E_MODULE_DAMAGED;
	for (uint64_t done = 0; done < bytes && bytes - done >= entry; done += SEEK_BYTES) {
		uint64_t some = bytes - done < SEEK_BYTES + entry ? bytes - done
								  : SEEK_BYTES + entry;

		if (elf_read(elf, start + done, chunk, some))
			return -WM_E_MODULE_DAMAGED;
		for (uint64_t at = 0; at + entry <= some; at += 8) {
			struct wm_site first;

			memcpy(&first, chunk + at, sizeof(first));
			if (!site_table_leads(&sites->table, &first, 0))
				continue;
			if (!table_check(elf, sites, start + done + at)) {
				sites->start = start + done + at;
				return 0;
			}
			if (++sites->tries == SITE_TABLE_TRIES)
				return -WM_E_MODULE_DAMAGED;
		}
	}
	return -WM_E_MODULE_DAMAGED;
}

/* The note was moved: where is the table that it speaks of? */
static int table_seek(const struct elf *elf, struct sites *sites)
{
	uint8_t *chunk = malloc(SEEK_BYTES + sizeof(struct wm_site));
	int err = chunk ? -WM_E_MODULE_DAMAGED : -ENOMEM;

	for (size_t i = 0; i < elf->segment_count && err == -WM_E_MODULE_DAMAGED &&
			   sites->tries < SITE_TABLE_TRIES;
	     i++) {
		const Elf64_Phdr *load = &elf->segments[i];

		if (load->p_type == PT_LOAD && load->p_flags & PF_R && !(load->p_flags & PF_W))
			err = segment_seek(elf, sites, load, chunk);
	}
	free(chunk);
	return err;
}

static int table_walk(const struct elf *elf, struct sites *sites)
{
	uint64_t stop = sites->start + sites->table.bytes;
	struct wm_site raw[SITES_AT_ONCE];

	for (uint64_t at = sites->start; at < stop;) {
		uint64_t left = (stop - at) / sizeof(raw[0]);
		size_t count = left < SITES_AT_ONCE ? (size_t)left : SITES_AT_ONCE;
		int err = elf_read(elf, at, raw, count * sizeof(raw[0]));

		for (size_t i = 0; i < count && !err; i++)
			err = site_give(elf, sites, at + i * sizeof(raw[0]), &raw[i]);
		if (err)
			return err;
		at += count * sizeof(raw[0]);
	}
	return 0;
}

static int sites_take(const struct note *note, uint64_t address, void *data)
{
	struct sites *sites = data;
	struct wm_site_note bounds;
	struct site_table table;
	uint64_t start;

	if (!notes_is(note, SITE_NOTE_OWNER, SITE_NOTE_TYPE) || note->body_bytes < sizeof(bounds))
		return 0;
	memcpy(&bounds, note->body, sizeof(bounds));
	start = address + (uint64_t)(int64_t)bounds.sites_start;
	table = site_table_of(&bounds);
	if (sites->has_note)
		return start == sites->start && table.bytes == sites->table.bytes
			       ? 0
			       : -WM_E_MODULE_DAMAGED;
	sites->start = start;
	sites->table = table;
	sites->has_note = true;
	return 0;
}

int elf_sites(const struct elf *elf, int (*site)(const struct elf_site *site, void *data),
	      void *data)
{
	struct sites sites = { .fn = site, .data = data };
	int err = notes_each(elf, sites_take, &sites);

	if (err || !sites.table.bytes)
		return err;
	err = table_check(elf, &sites, sites.start);
	if (err == -WM_E_MODULE_DAMAGED)
		err = table_seek(elf, &sites);
	if (err)
		return err;
	sites.text = malloc(ELF_TEXT_BYTES);
	if (!sites.text)
		return -ENOMEM;
	err = table_walk(elf, &sites);
	free(sites.text);
	return err;
}
