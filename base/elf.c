/* SPDX-License-Identifier: MIT */
#include "base/elf.h"

#include "abi/release.h"
#include "abi/site.h"
#include "base/notes.h"
#include "base/regular_file.h"
#include "base/site_table.h"

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

/* ---- notes, and what they lead to: a build id, marker sites ---- */

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

/* ---- dynamic symbols, found by a hash table as the loader finds them ---- */

#define DYNAMIC_MAX 1024
#define CHAIN_MAX (1 << 20) /* symbols in one hash chain; hostile files have endless ones */

struct dynamic {
	uint64_t symbols, strings, strings_bytes, gnu_hash, hash;
	uint64_t soname; /* in the strings; 0: none */
};

/*
 * glibc adds the load address to these entries in place, other loaders and the kernel's vdso don't:
 * what is past the load address can't be as linked, for no module is linked that high.
 */
static uint64_t dynamic_address(const struct elf *elf, uint64_t value)
{
	return elf->in_memory && elf->base && value >= elf->base ? value - elf->base : value;
}

static int dynamic_read(const struct elf *elf, struct dynamic *dynamic)
{
	const Elf64_Phdr *segment = elf_segment(elf, PT_DYNAMIC);
	uint64_t count = segment ? segment->p_memsz / sizeof(Elf64_Dyn) : 0;

	*dynamic = (struct dynamic){ 0 };
	for (uint64_t i = 0; i < count && i < DYNAMIC_MAX; i++) {
		Elf64_Dyn entry;
		uint64_t address;
		int err = elf_read(elf, segment->p_vaddr + i * sizeof(entry), &entry,
				   sizeof(entry));

		if (err)
			return err;
		if (entry.d_tag == DT_NULL)
			break;
		address = dynamic_address(elf, entry.d_un.d_ptr);
		if (entry.d_tag == DT_SYMTAB)
			dynamic->symbols = address;
		else if (entry.d_tag == DT_STRTAB)
			dynamic->strings = address;
		else if (entry.d_tag == DT_STRSZ)
			dynamic->strings_bytes = entry.d_un.d_val;
		else if (entry.d_tag == DT_GNU_HASH)
			dynamic->gnu_hash = address;
		else if (entry.d_tag == DT_SONAME)
			dynamic->soname = entry.d_un.d_val;
		else if (entry.d_tag == DT_HASH)
			dynamic->hash = address;
	}
	return dynamic->symbols && dynamic->strings ? 0 : -ENOENT;
}

int elf_soname(const struct elf *elf, char *text, size_t room)
{
	struct dynamic dynamic;
	int err = dynamic_read(elf, &dynamic);

	if (err)
		return err;
	if (!dynamic.soname || dynamic.soname >= dynamic.strings_bytes)
		return -ENOENT;
	return elf_read_text(elf, dynamic.strings + dynamic.soname, text, room);
}

/* Is symbol `index` a definition of `name`? Then 1, and its value. */
static int symbol_is(const struct elf *elf, const struct dynamic *dynamic, uint64_t index,
		     const char *name, uint64_t *value)
{
	size_t bytes = strlen(name) + 1;
	char found[256];
	Elf64_Sym symbol;
	int err = elf_read(elf, dynamic->symbols + index * sizeof(symbol), &symbol, sizeof(symbol));

	if (err)
		return err;
	if (symbol.st_shndx == SHN_UNDEF || bytes > sizeof(found) ||
	    symbol.st_name > dynamic->strings_bytes ||
	    bytes > dynamic->strings_bytes - symbol.st_name)
		return 0;
	err = elf_read(elf, dynamic->strings + symbol.st_name, found, bytes);
	if (err || memcmp(found, name, bytes))
		return err;
	*value = symbol.st_value;
	return 1;
}

static uint32_t gnu_hash_of(const char *name)
{
	uint32_t hash = 5381;

	while (*name)
		hash = hash * 33 + (unsigned char)*name++;
	return hash;
}

/* The GNU hash table: four words, a Bloom filter, buckets, and chains that end at an odd hash. */
static int gnu_hash_find(const struct elf *elf, const struct dynamic *dynamic, const char *name,
			 uint64_t *value)
{
	uint32_t head[4], index, want = gnu_hash_of(name);
	uint64_t buckets, chains;
	int err = elf_read(elf, dynamic->gnu_hash, head, sizeof(head));

	if (err)
		return err;
	if (!head[0])
		return -ENOENT;
	buckets = dynamic->gnu_hash + sizeof(head) + (uint64_t)head[2] * sizeof(uint64_t);
	chains = buckets + (uint64_t)head[0] * sizeof(uint32_t);
	err = elf_read(elf, buckets + want % head[0] * sizeof(uint32_t), &index, sizeof(index));
	if (err)
		return err;
	if (index < head[1])
		return -ENOENT;
	for (uint32_t i = 0; i < CHAIN_MAX; i++) {
		uint32_t hash;

		err = elf_read(elf, chains + (uint64_t)(index - head[1] + i) * sizeof(hash), &hash,
			       sizeof(hash));
		if (!err && (hash | 1) == (want | 1))
			err = symbol_is(elf, dynamic, (uint64_t)index + i, name, value);
		if (err)
			return err < 0 ? err : 0;
		if (hash & 1)
			return -ENOENT;
	}
	return -WM_E_NOT_ELF;
}

static uint32_t sysv_hash_of(const char *name)
{
	uint32_t hash = 0;

	while (*name) {
		uint32_t high;

		hash = (hash << 4) + (unsigned char)*name++;
		high = hash & 0xf0000000u;
		hash = (hash ^ high >> 24) & ~high;
	}
	return hash;
}

/* The older table: counts of buckets and chains, buckets, and chains that end at symbol 0. */
static int sysv_hash_find(const struct elf *elf, const struct dynamic *dynamic, const char *name,
			  uint64_t *value)
{
	uint32_t head[2], index;
	uint64_t at;
	int err = elf_read(elf, dynamic->hash, head, sizeof(head));

	if (err)
		return err;
	if (!head[0])
		return -ENOENT;
	at = dynamic->hash + sizeof(head) + sysv_hash_of(name) % head[0] * sizeof(index);
	for (uint32_t i = 0; i <= head[1] && i < CHAIN_MAX; i++) {
		err = elf_read(elf, at, &index, sizeof(index));
		if (err)
			return err;
		if (!index)
			return -ENOENT;
		err = symbol_is(elf, dynamic, index, name, value);
		if (err)
			return err < 0 ? err : 0;
		at = dynamic->hash + sizeof(head) + ((uint64_t)head[0] + index) * sizeof(index);
	}
	return -WM_E_NOT_ELF;
}

int elf_symbol(const struct elf *elf, const char *name, uint64_t *value)
{
	struct dynamic dynamic;
	int err = dynamic_read(elf, &dynamic);

	if (err)
		return err;
	if (dynamic.gnu_hash)
		return gnu_hash_find(elf, &dynamic, name, value);
	if (dynamic.hash)
		return sysv_hash_find(elf, &dynamic, name, value);
	return -ENOENT;
}
