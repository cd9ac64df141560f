/* SPDX-License-Identifier: MIT */
/*
 * Reads ELF64 x86-64 modules, from a file or from a process's memory: build id, symbols, and the
 * marker sites of abi/site.h. For the outside: it allocates. Files and memory may be hostile: every
 * offset and count is checked against what is there, and nothing is mapped, so a file that is cut
 * short meanwhile is an error and no signal.
 *
 * Addresses are as linked. In a process, elf.base + address is where they lie.
 */
#ifndef BASE_ELF_H
#define BASE_ELF_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ELF_BUILD_ID_BYTES 20
#define ELF_TEXT_BYTES 65536

struct elf {
	int fd;
	bool in_memory; /* fd is /proc/PID/mem, borrowed */
	uint64_t base;	/* in_memory: what was added to every address */
	uint64_t file_bytes;
	Elf64_Ehdr header;
	Elf64_Phdr *segments;
	size_t segment_count;
};

struct elf_site {
	uint64_t entry;	 /* of the struct wm_site */
	uint64_t site;	 /* the instruction; 0 in the end of a scope, which has none */
	uint64_t cold;	 /* where it jumps while armed; 0 likewise */
	uint64_t record; /* its struct wm_record */
	uint8_t types[16];
	const char *text; /* as abi/site.h has it; valid during the callback only */
};

/*
 * Open a file. Returns 0, -errno, -WM_E_NOT_ELF, or -WM_E_FOREIGN_ARCH for ELF of another kind.
 * Release with elf_release(), also after an error.
 */
int elf_open(struct elf *elf, const char *path);

/*
 * The module whose header is at `address` in the memory that mem_fd reads (/proc/PID/mem, which
 * stays the caller's). Returns as elf_open().
 */
int elf_open_memory(struct elf *elf, int mem_fd, uint64_t address);

void elf_release(struct elf *elf);

/*
 * Copy bytes as they are once loaded. Returns 0, -WM_E_NOT_ELF if they are in no segment, -errno.
 */
int elf_read(const struct elf *elf, uint64_t address, void *buffer, size_t bytes);

/*
 * Copy a NUL-terminated text. Returns its length; -WM_E_NOT_ELF where it leaves its segment, -E2BIG
 * where the room does not hold it.
 */
int elf_read_text(const struct elf *elf, uint64_t address, char *buffer, size_t room);

/* The segment of a type that holds an address; any address: the first of its type. Or NULL. */
const Elf64_Phdr *elf_segment(const struct elf *elf, uint32_t type);
const Elf64_Phdr *elf_segment_at(const struct elf *elf, uint64_t address);

/*
 * The description of the first note of that owner and type: copies up to `room` bytes; returns how
 * many, 0 if it is absent.
 */
int elf_note(const struct elf *elf, const char *owner, uint32_t type, void *body, size_t room);

/* The same of the build id, up to ELF_BUILD_ID_BYTES. */
int elf_build_id(const struct elf *elf, uint8_t id[ELF_BUILD_ID_BYTES]);

/*
 * The release of a file of Waymark's (abi/release.h), in text[bytes]. 0, or -ENOENT if it has no
 * note.
 */
int elf_release_text(const struct elf *elf, char *text, size_t bytes);

/*
 * The name that programs link a library by (DT_SONAME), in text[room]. Its length; -ENOENT where it
 * has none; -WM_E_NOT_ELF, -E2BIG or -errno.
 */
int elf_soname(const struct elf *elf, char *text, size_t room);

/* The value of a defined dynamic symbol. Returns 0, -ENOENT, -WM_E_NOT_ELF or -errno. */
int elf_symbol(const struct elf *elf, const char *name, uint64_t *value);

/*
 * Call site() for each marker site, in order of the table. A return other than 0 ends it and is
 * returned. Returns 0 for a module without sites; -WM_E_MODULE_DAMAGED if the table is damaged. A
 * table whose note was moved is found by its entries (base/site_table.h).
 */
int elf_sites(const struct elf *elf, int (*site)(const struct elf_site *site, void *data),
	      void *data);

#endif
