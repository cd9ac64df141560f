/* SPDX-License-Identifier: MIT */
/*
 * A module's .eh_frame: where each function, or part of one, begins and ends, where its exceptions
 * land, what holds at its entry. Damaged tables are read as far as they make sense.
 */
#ifndef TARGET_CODE_FRAMES_H
#define TARGET_CODE_FRAMES_H

#include "target/code/module_image.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct frame {
	uint64_t start, end;
	uint64_t lsda;	/* 0: none */
	bool is_signal; /* a signal handler returns here */
	bool is_plain;	/* at its entry the CFA is %rsp + 8, and the return address at CFA - 8 */
};

struct frames {
	struct frame *all; /* in order of start */
	size_t count, room;
	bool is_damaged; /* the table ended early: there may be more functions */
};

/* Returns 0, also without frames or with damaged ones; -ENOMEM. Release also after an error. */
int frames_read(struct frames *frames, const struct image *image);
void frames_release(struct frames *frames);

/* The one that holds an address, or NULL. */
const struct frame *frames_at(const struct frames *frames, uint64_t address);

/*
 * Call pad() with each address where an exception lands in the function. Returns 0, or -EBADMSG
 * where the table can't be read: then some may be missing.
 */
int frames_landing_pads(const struct image *image, const struct frame *frame,
			void (*pad)(uint64_t address, void *data), void *data);

#endif
