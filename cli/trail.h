/* SPDX-License-Identifier: MIT */
/* waymark trail: what its ways of showing a trail share. Each is a file trail_NAME.c. */
#ifndef CLI_TRAIL_H
#define CLI_TRAIL_H

#include "base/out.h"
#include "cli/trail_view.h"
#include "read/history/crash.h"
#include "read/history/instruction.h"
#include "read/rows/render.h"

#include <stdint.h>

struct trail_options {
	const char *dir;
	uint64_t last;	  /* of each thread; UINT64_MAX: all */
	unsigned int way; /* of showing it */
	uint32_t depth;	  /* calls nested no deeper than this; 0: all */
	int json;
	int is_verbose, is_intel;
	const char *module;			    /* glob; NULL: all */
	const char *source, *function, *source_dir; /* of --lines; NULL: not given */
	struct trail_wanted wanted;
	struct image_options image;
};

struct trail_show {
	struct trail_options options;
	struct trail_view view;
	struct out *out;
	struct rows rows; /* of --json */
	struct instruction_format *format;
	const struct image_module *asked; /* of --module, the last that was asked for */
	int is_asked_wanted;
};

/*
 * Whether code of a module (NULL: of none), or at an address, is to be shown: --module matches it.
 */
int trail_shows_module(struct trail_show *show, const struct image_module *module);
int trail_is_in_module(struct trail_show *show, struct image *image, uint64_t address);

/* Each prints to show->out and returns 0 or a negative error. */
int trail_branches(struct trail_show *show);
int trail_instructions(struct trail_show *show);
int trail_blocks(struct trail_show *show);
int trail_calls(struct trail_show *show);
int trail_functions(struct trail_show *show);
int trail_lines(struct trail_show *show);

/* The calls that a thread was in at the end of its trail, the innermost first, up to main(). */
int trail_backtrace(struct trail_show *show, const struct trail_path *path);

/* ---- lines that all listings have: which thread it is of, and what came between ---- */

#define TRAIL_LEFT_WIDTH 14 /* of the first column: an index, or a time */

/*
 * Head each thread that is wanted, and have its path put by `put`, until that or writing fails. 0,
 * -ENOMEM, or what `put` returned.
 */
int trail_each_path(struct trail_show *show,
		    int (*put)(struct trail_show *show, const struct trail_path *path,
			       struct image *image));

/*
 * An event's line: when, what, and where it was, with the instruction that was to run there; or its
 * rows. `item` is the event; a cursor behind it is not needed.
 */
void trail_put_event(struct trail_show *show, const struct trail_path *path, struct image *image,
		     const struct trail_item *item);

/* `before`, and "text=0x0, limit=10"; "?" for an unknown value. Nothing if all are unknown. */
void trail_crash_arguments(struct out *out, const struct code_frame *frame, const char *before);

#endif
