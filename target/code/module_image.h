/* SPDX-License-Identifier: MIT */
/*
 * A module's bytes at their addresses, copied once, for code that reads all of it: the
 * instructions, the tables that point into them, the unwind information.
 *
 * An image is not written after image_load(): any number of threads may read it.
 */
#ifndef TARGET_CODE_MODULE_IMAGE_H
#define TARGET_CODE_MODULE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct code_file;

/* A segment's bytes in the file, without the zeros that the loader adds behind them. */
struct image_part {
	uint64_t address;
	size_t bytes;
	uint8_t *data;
	bool is_code;
};

struct image_range {
	uint64_t start, end;
};

struct image {
	struct image_part *parts; /* in order of address, none across another */
	size_t part_count;
	struct image_range
		*code; /* executable sections, or segments if there is no section table; in order */
	size_t code_count;
	struct image_range
		*tables; /* lists of places to patch: an address in one is not a jump's target */
	size_t table_count;
	uint64_t frames;      /* .eh_frame's address, 0: none */
	uint64_t frames_end;  /* where it ends at the latest */
	uint64_t frames_hdr;  /* .eh_frame_hdr's, likewise */
	uint64_t relocations; /* DT_RELA, 0: none */
	uint64_t relocation_bytes;
	uint64_t plt_relocations; /* DT_JMPREL, likewise */
	uint64_t plt_relocation_bytes;
	uint64_t symbols; /* DT_SYMTAB, likewise */
	uint64_t texts;	  /* DT_STRTAB, likewise */
	uint64_t soname;  /* DT_SONAME's text, likewise */
	bool is_fixed;	  /* not position-independent: instructions may hold code addresses */
};

/* Returns 0, -WM_E_NOT_ELF, -errno. Release also after an error. */
int image_load(struct image *image, struct code_file *file);
void image_release(struct image *image);

/*
 * The byte at an address, with how many follow in its part, itself included; or NULL, and *left 0.
 */
const uint8_t *image_at(const struct image *image, uint64_t address, size_t *left);

/* Copy: 0, or -EFAULT where not all of it is there. */
int image_read(const struct image *image, uint64_t address, void *buffer, size_t bytes);

/* The text at an address; "" where no text is. */
const char *image_text(const struct image *image, uint64_t address);

/* The executable section that holds an address, or NULL. */
const struct image_range *image_code_at(const struct image *image, uint64_t address);

/* Whether an address is in one of the image's lists of places to patch. */
bool image_is_table(const struct image *image, uint64_t address);

#endif
