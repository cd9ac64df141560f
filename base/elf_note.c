/* SPDX-License-Identifier: MIT */
/* A module's notes, and what they lead to: its build id, its marker sites. */
#include "base/elf.h"

#include "abi/site.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define NOTES_BYTES_MAX (1 << 20)
#define SITES_AT_ONCE 256

struct note {
	uint32_t type;
	const char *owner;
	uint32_t owner_bytes;
	const uint8_t *body;
	uint32_t body_bytes;
	uint64_t body_at; /* its address */
};

typedef int note_fn(const struct note *note, void *data);

static uint64_t round_up(uint64_t value, uint64_t to)
{
	return (value + to - 1) / to * to;
}

/* Walk the notes in a segment's bytes; padded to 4, or to 8 where the segment is aligned so. */
static int notes_walk(const Elf64_Phdr *segment, const uint8_t *bytes, note_fn *fn, void *data)
{
	uint64_t pad = segment->p_align == 8 ? 8 : 4, at = 0;

	while (segment->p_filesz - at >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr head;
		struct note note;
		uint64_t body;
		int err;

		memcpy(&head, bytes + at, sizeof(head));
		body = round_up(at + sizeof(head) + head.n_namesz, pad);
		if (body > segment->p_filesz || head.n_descsz > segment->p_filesz - body)
			return 0; /* cut off; what stands before was good */
		note = (struct note){
			.type = head.n_type,
			.owner = (const char *)bytes + at + sizeof(head),
			.owner_bytes = head.n_namesz,
			.body = bytes + body,
			.body_bytes = head.n_descsz,
			.body_at = segment->p_vaddr + body,
		};
		err = fn(&note, data);
		if (err)
			return err;
		at = round_up(body + head.n_descsz, pad);
		if (at > segment->p_filesz)
			break;
	}
	return 0;
}

static int notes_each(const struct elf *elf, note_fn *fn, void *data)
{
	for (size_t i = 0; i < elf->segment_count; i++) {
		const Elf64_Phdr *segment = &elf->segments[i];
		uint8_t *bytes;
		int err;

		if (segment->p_type != PT_NOTE || !segment->p_filesz ||
		    segment->p_filesz > NOTES_BYTES_MAX)
			continue;
		bytes = malloc(segment->p_filesz);
		if (!bytes)
			return -ENOMEM;
		err = elf_read(elf, segment->p_vaddr, bytes, segment->p_filesz);
		if (!err)
			err = notes_walk(segment, bytes, fn, data);
		free(bytes);
		if (err)
			return err;
	}
	return 0;
}

static bool note_is(const struct note *note, const char *owner, uint32_t type)
{
	return note->type == type && note->owner_bytes == strlen(owner) + 1 &&
	       !memcmp(note->owner, owner, note->owner_bytes);
}

struct wanted {
	const char *owner;
	uint32_t type;
	void *body;
	size_t room;
	int bytes;
};

static int wanted_take(const struct note *note, void *data)
{
	struct wanted *wanted = data;

	if (!note_is(note, wanted->owner, wanted->type) || !note->body_bytes)
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

struct sites {
	uint64_t start, stop; /* of the table; a module holds one, told of by many equal notes */
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
		return err == -E2BIG ? -WM_E_NOT_ELF : err;
	return sites->fn(&site, sites->data);
}

static int table_walk(const struct elf *elf, struct sites *sites)
{
	struct wm_site raw[SITES_AT_ONCE];

	for (uint64_t at = sites->start; at < sites->stop;) {
		uint64_t left = (sites->stop - at) / sizeof(raw[0]);
		size_t count = left < SITES_AT_ONCE ? (size_t)left : SITES_AT_ONCE;
		int err = count ? elf_read(elf, at, raw, count * sizeof(raw[0])) : -WM_E_NOT_ELF;

		for (size_t i = 0; i < count && !err; i++)
			err = site_give(elf, sites, at + i * sizeof(raw[0]), &raw[i]);
		if (err)
			return err;
		at += count * sizeof(raw[0]);
	}
	return 0;
}

static int sites_take(const struct note *note, void *data)
{
	struct sites *sites = data;
	struct wm_site_note bounds;
	uint64_t start, stop;

	if (!note_is(note, SITE_NOTE_OWNER, SITE_NOTE_TYPE) || note->body_bytes < sizeof(bounds))
		return 0;
	memcpy(&bounds, note->body, sizeof(bounds));
	start = note->body_at + offsetof(struct wm_site_note, sites_start) +
		(uint64_t)(int64_t)bounds.sites_start;
	stop = note->body_at + offsetof(struct wm_site_note, sites_stop) +
	       (uint64_t)(int64_t)bounds.sites_stop;
	if (start == sites->start && stop == sites->stop)
		return 0;
	if (sites->stop || start > stop)
		return -WM_E_NOT_ELF;
	sites->start = start;
	sites->stop = stop;
	return 0;
}

int elf_sites(const struct elf *elf, int (*site)(const struct elf_site *site, void *data),
	      void *data)
{
	struct sites sites = { .fn = site, .data = data };
	int err = notes_each(elf, sites_take, &sites);

	if (err || sites.start == sites.stop)
		return err;
	sites.text = malloc(ELF_TEXT_BYTES);
	if (!sites.text)
		return -ENOMEM;
	err = table_walk(elf, &sites);
	free(sites.text);
	return err;
}
