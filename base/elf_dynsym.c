/* SPDX-License-Identifier: MIT */
/* A module's dynamic symbols, found by its hash table as the loader finds them. */
#include "base/elf.h"

#include <errno.h>
#include <string.h>
#include <waymark/error.h>

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
