/* SPDX-License-Identifier: MIT */
/*
 * The state of a thread that a signal killed: its frames, by the registers and the stack's words at
 * the end of its trail, and the values of their functions' parameters.
 */
#ifndef READ_HISTORY_CRASH_H
#define READ_HISTORY_CRASH_H

#include "read/history/image.h"
#include "target/code/argument.h"
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

/* Find the frames, as far as the stack was recorded. Both must live longer; do not move *crash. */
void crash_init(struct crash *crash, const struct trail_values *values, struct image *image);

#endif
