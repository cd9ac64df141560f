/* SPDX-License-Identifier: MIT */
/* waymark diff: what it has found, for those who print it. */
#ifndef CLI_DIFF_H
#define CLI_DIFF_H

#include "base/out.h"
#include "cli/trail_bounds.h"
#include "read/history/divergence.h"
#include "trace/trail/pair.h"

#define DIFF_HARMLESS_NAMES 64

struct diff_options {
	const char *dirs[2];
	uint64_t last;		   /* blocks that are shown before and behind */
	uint32_t tids[2], pids[2]; /* 0: all */
	struct trail_bounds bounds;
	int json;
	struct divergence_options divergence;
	const char *harmless[DIFF_HARMLESS_NAMES];
	struct image_options image;
};

/* A pair of threads, compared. */
struct diff_thread {
	struct trail_pair pair;
	struct divergence divergence; /* where both are there */
	int is_different;
};

struct diff {
	struct diff_options options;
	struct trail_view views[2];
	struct trail_bounds bounds[2];	  /* as the options have them, found in each trace */
	struct trail_path *of_process[2]; /* copies of the paths that are paired; NULL: all are */
	struct alike *alike;
	struct diff_thread *threads;
	size_t thread_count;
	struct out *out;
};

/* What a place is called. Function and source may be NULL. */
struct diff_place {
	uint64_t address;
	const struct image_place *place;
	struct image_line line;
};

/* An address on a side, as it was when blocks of that table ran. */
struct diff_address {
	int side;
	uint64_t address;
	const struct trail_table *table;
};

void diff_place(struct diff *diff, const struct diff_thread *thread,
		const struct diff_address *address, struct diff_place *place);

/*
 * What came next on a side, in words: "continues at", "gets signal 14", "exits with 3". Into
 * text[]; returns whether a place belongs to it.
 */
int diff_next(const struct diff_thread *thread, int side, struct diff_address *address, char *text,
	      size_t bytes);

/* Say what was harmless, in words, into text[]. */
void diff_harmless(const struct divergence_harmless *harmless, char *text, size_t bytes);

/* Print all, as options.json says. 0 or a negative error of writing. */
int diff_show(struct diff *diff);

#endif
