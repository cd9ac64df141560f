/* SPDX-License-Identifier: MIT */
/*
 * What a thread had when a signal killed it: the frames that it was in, by the registers and the stack's words that its trail ends
 * with, and the values of their functions' parameters.
 */
#ifndef HISTORY_CRASH_H
#define HISTORY_CRASH_H

#include "code/argument.h"
#include "history/image.h"
#include "trace/trail/path.h"

#include <stdint.h>

#define CRASH_FRAMES_MAX 64u

struct crash {
	const struct trail_values *values;
	struct image *image;
	struct code_frame frames[CRASH_FRAMES_MAX]; /* the innermost first */
	uint32_t count;
};

/* The name of a general register by its number in enum trail_value; rip and rflags too. */
const char *crash_register(uint32_t number);

/* Find the frames, as far as the stack was recorded. Both must live longer, and *crash stay where it is. */
void crash_init(struct crash *crash, const struct trail_values *values, struct image *image);

#endif
