/* SPDX-License-Identifier: MIT */
/*
 * For tests: the packets that a processor with Intel PT would have stored, had it run what a trail
 * says: user code alone, or the kernel's too, where the trail has it. libipt's encoder writes them;
 * which ones, and when, is by the Intel SDM, volume 3, chapter 33.
 */
#ifndef RECORD_TRAIL_TESTING_PT_ENCODE_H
#define RECORD_TRAIL_TESTING_PT_ENCODE_H

#include "trace/trail/path.h"

#include <stddef.h>
#include <stdint.h>

struct pt_encode_options {
	int compresses_returns;
	uint32_t psb_every; /* blocks; 0: one at the beginning */
	uint64_t tsc;	    /* the first; each more is 100 later */
};

/* An item of a trail, however it is stored. */
struct pt_item {
	struct trail_entry entry; /* no instructions: an event */
	struct trail_between between;
	const uint8_t *code; /* of a block, where it came from a path: the path's; else NULL */
};

/* Encode items[count] into *bytes (malloc'd), *size of them. 0, or libipt's error. */
int pt_encode(uint8_t **bytes, size_t *size, const struct pt_item *items, size_t count,
	      const struct pt_encode_options *options);

/* A path's items: malloc'd, *count of them. */
struct pt_item *pt_items_of(const struct trail_path *path, size_t *count);

#endif
