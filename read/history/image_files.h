/* SPDX-License-Identifier: MIT */
/*
 * The files of the modules in a trace, each read once however many processes mapped it: libc in 256
 * children is one file. One thread at a time uses them.
 */
#ifndef READ_HISTORY_IMAGE_FILES_H
#define READ_HISTORY_IMAGE_FILES_H

#include "target/code/rows.h"
#include "target/code/symbol.h"

#include <stdint.h>

struct image_files;

/* A module's file, and what was read of it. */
struct image_read {
	struct code_file *file; /* NULL: it can't be had, or the code is the kernel's */
	int error; /* why: as image_file_open(), kernel_symbols_read() or code_symbols_read() */
	struct code_symbols symbols;
	uint64_t kernel_bytes; /* of the kernel's code: what its symbols cover */
};

/*
 * Files below `root` ("": as they are). 0 or -ENOMEM. Close when no image uses them any more; NULL
 * is let pass.
 */
int image_files_open(struct image_files **files, const char *root);
void image_files_close(struct image_files *files);

/* Whether the file of that path was written later than at a time, by the wall clock. */
int image_files_is_later(const struct image_files *files, const char *path, uint64_t ns);

/*
 * The file that was mapped as `path`, of that build id (in hex; NULL: it has none) and, for the
 * kernel's code, at `base`. Read when it is first asked for. Valid until the files are closed;
 * NULL: no memory.
 */
struct image_read *image_files_get(struct image_files *files, const char *path,
				   const char *build_id, uint64_t base);

/* The lines of its code, read when they are first asked for; empty for a file without lines. */
const struct code_rows *image_files_rows(struct image_read *read);

#endif
