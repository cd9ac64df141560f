/* SPDX-License-Identifier: MIT */
/*
 * The modules of an image: when each was there, the range that it covers, and the one at an
 * address. One thread at a time uses them.
 */
#ifndef READ_HISTORY_IMAGE_MODULES_H
#define READ_HISTORY_IMAGE_MODULES_H

#include "read/history/image.h"

/*
 * From the event by which a module came to the one by which it went (trail_era); UINT32_MAX: it did
 * not.
 */
struct image_stay {
	uint32_t from, to;
};

struct image_mapped {
	struct image_module seen;	/* first, so that one can get from it to this */
	uint64_t low;			/* what it covers begins there; once it is opened */
	struct image_read *read;	/* once it is opened; NULL: no memory */
	size_t order;			/* in which they came, the last time */
	uint64_t ns;			/* when it came first, by the wall clock; 0: unknown */
	const struct image_stay *stays; /* one behind the other */
	size_t stay_count;
	int is_opened;
};

/* From a time on: the process's modules are those of an era, and no two of them at one place. */
struct image_moment {
	uint64_t ns;
	uint32_t from; /* as in trail_era */
};

struct image_modules {
	struct image_files *files, *own_files; /* the former may be others' */
	struct image_mapped *all;	       /* by start */
	size_t count;
	struct image_stay *stays;
	struct image_moment *moments; /* the first begins at 0 */
	size_t moment_count;
};

/* As image_open(). Release also after an error. */
int image_modules_open(struct image_modules *modules, const struct fact_process *process,
		       const struct image_options *options);
void image_modules_release(struct image_modules *modules);

/*
 * The module that begins last before an address and reaches to it, of those that were there in that
 * era. One that was there to its end is taken before one that went, and of two at one place the
 * later. NULL: none.
 */
struct image_mapped *image_modules_at(struct image_modules *modules, const struct trail_era *era,
				      uint64_t address);

/* The moment of a time, by the wall clock; its number is that of the era. */
struct trail_era image_modules_then(const struct image_modules *modules, uint64_t ns);

/* Whether it was there in that era, if only for a while. */
int image_modules_has(const struct image_mapped *module, const struct trail_era *era);

#endif
