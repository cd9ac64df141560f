/* SPDX-License-Identifier: MIT */
/*
 * The addresses of a traced process: modules, functions, lines of source. The files are those of
 * this machine, by the paths in the trace, and must be the ones that ran: by build id.
 *
 * Where a file is missing or another, its debug file will do; else its addresses have a module and
 * no more, and the module says why. All texts are the image's. One thread at a time uses an image.
 *
 * Modules come and go, and others take their place. An image is of all the time; got by image_in(),
 * of the era in which a table's blocks ran; got by image_then(), of a time. Of several modules that
 * lay at one place in its time the one that was there to the end is meant, or the last. Modules are
 * the same ones in all eras.
 */
#ifndef READ_HISTORY_IMAGE_H
#define READ_HISTORY_IMAGE_H

#include "target/code/file.h"
#include "target/code/symbol.h"
#include "trace/reader.h"
#include "trace/trail/table.h"
#include "trace/facts.h"

#include <stddef.h>
#include <stdint.h>

struct image;

/*
 * The files of modules, each read once however many processes mapped it: libc in 256 children is
 * one file.
 */
struct image_files;

/*
 * Files below `root` ("": as they are). 0 or -ENOMEM. Close when no image uses them any more; NULL
 * is let pass.
 */
int image_files_open(struct image_files **files, const char *root);
void image_files_close(struct image_files *files);

struct image_module {
	const char *path;	/* as the trace has it */
	const char *name;	/* the last part of it */
	const char *build_id;	/* in hex, as the trace has it; NULL: none */
	uint64_t base;		/* what is added to addresses as linked */
	uint64_t start, end;	/* what it covers in the process; end 0: not known */
	struct code_file *file; /* NULL: it can't be had */
	int error;		/* why: -ENOENT, -WM_E_FILE_REPLACED, or as code_file_open() */
	int is_asked;		/* an address in it was asked for */
	size_t others;		/* places where other code ran than the file has: image_check() */
	const struct code_symbols *symbols; /* of the file, once asked for; none until then */
};

#define IMAGE_NAME_MAX 1000 /* of a function's name; a longer one is cut */

struct image_place {
	struct image_module
		*module;      /* NULL: none is known there, as in nameless code made at run time */
	const char *function; /* code_name_text(); NULL: not known */
	const char *linkage;  /* the function's name to the linker; NULL: not known */
	uint64_t start;	  /* the function's first address in the process; 0 where it is not known */
	uint64_t bytes;	  /* the function's; 0: not known */
	uint64_t address; /* the place's own */
};

struct image_line {
	const char *source; /* the path, as debug information has it; NULL: not known */
	unsigned int line;
};

struct image_options {
	const char *root;	   /* before all paths of the trace; NULL: none */
	struct image_files *files; /* shared with other images, below that root; NULL: its own */
	int with_parameters;	   /* functions are named f(int), and not f */
	const struct trace_reader *trace; /* that may name code made at run time; NULL: none */
};

/*
 * Read nothing yet: files are opened when an address in them is asked for. The process, and files
 * that are shared, must live longer. `options` may be NULL. 0 or -ENOMEM; close with image_close(),
 * which allows NULL.
 */
int image_open(struct image **image, const struct fact_process *process,
	       const struct image_options *options);
void image_close(struct image *image);

/*
 * The images of a trace's processes, whose files are each read once; image_options's `files` and
 * `trace` are its own.
 */
struct images {
	struct trace_reader *reader; /* must live longer */
	struct image_options options;
	struct image **all; /* by process, and one of all others; NULL: not asked for */
};

/* 0 or -ENOMEM; `options` may be NULL. Close in any case, also what is zeroed. */
int images_open(struct images *images, struct trace_reader *reader,
		const struct image_options *options);
void images_close(struct images *images);

/* That of a process, by its number; one that the trace lacks has no modules. NULL: no memory. */
struct image *images_get(struct images *images, uint32_t process);

/*
 * The image in the era in which blocks of a table of that process ran; `table` NULL: of all the
 * time. Closed with the image that was opened. Asked again it is cheap. NULL: no memory.
 */
struct image *image_in(struct image *image, const struct trail_table *table);

/*
 * The image at a time, by the wall clock, of an event in the process. NULL: no memory. Times that
 * no change of modules at one place is between have the same image, and the same number, which may
 * be NULL; an image of the process with later modules has the same numbers.
 */
struct image *image_then(struct image *image, uint64_t ns, uint32_t *number);

/*
 * The code or data at an address. Valid until the image is closed; NULL: no memory. Repeating is
 * cheap.
 */
const struct image_place *image_place(struct image *image, uint64_t address);

/* The module at an address, or NULL, also in code made at run time. */
const struct image_module *image_module_at(struct image *image, uint64_t address);

/* The source line of the instruction at an address, and of one in a module of an image's. */
void image_line(struct image *image, uint64_t address, struct image_line *line);
void image_module_line(const struct image_module *module, uint64_t address,
		       struct image_line *line);

/*
 * Copy the files' bytes at an address, of `bytes` as many as are in the same module. How many
 * bytes; 0: the file is not available. The code that ran may have been changed in memory.
 */
size_t image_code(struct image *image, uint64_t address, void *buffer, size_t bytes);

/*
 * Where image_place() was asked for a block of that table, in its era: compare the block's code
 * with what the module's file has, and have the module count it if it is other.
 */
void image_check(struct image *image, const struct trail_table *table,
		 const struct trail_block *block);

/*
 * The modules, by start, then that of named code made at run time; NULL behind the last. `is_asked`
 * and `error` show which could not be read though they were wanted.
 */
struct image_module *image_module(struct image *image, size_t index);

/* Whether that module was there in the image's era, if only for a while. */
int image_has(struct image *image, const struct image_module *module);

#endif
