/* SPDX-License-Identifier: MIT */
/*
 * The callers of samples that were taken without any, from the trail of their thread.
 *
 * A sample has a time and an instruction; the parts of a trail have times. So the sample was at one
 * of the places between two such times where that instruction ran; a sample in the kernel was at
 * any place between them. What the stacks of calls at all of these places begin and end with are
 * the sample's callers. "[unknown]" is in place of what differs, and of all that a loss or a gap
 * between these times hides.
 */
#ifndef READ_HISTORY_SAMPLES_TRAIL_H
#define READ_HISTORY_SAMPLES_TRAIL_H

#include "read/history/samples.h"
#include "trace/trail/path.h"

#include <stddef.h>
#include <stdint.h>

/* A sample, and the blocks of a path where it may have been taken. */
struct samples_place {
	size_t path;
	uint64_t address;    /* 0: at any */
	uint64_t begin, end; /* blocks of the path */
	uint32_t thread;
	size_t sample;
};

struct samples_callers {
	uint32_t stack; /* the callers; STACKS_ROOT: no trail covers the sample */
	int is_cut;	/* some of them are not known */
};

struct samples_trail {
	struct samples *samples;
	struct trails trails;
	struct samples_place *places;
	size_t place_count, place_room;
	size_t *last_paths; /* of each thread: the path that it was in last, + 1 */
	size_t last_room;
	struct samples_callers *callers; /* of each sample, in the order in which they were added */
	size_t count, room;
};

/* Read the trace's trails. 0 or a negative error. Release in any case. */
int samples_trail_open(struct samples_trail *trail, struct samples *samples);
void samples_trail_release(struct samples_trail *trail);

/* A sample without callers, at `address`; 0: not in the program. 0 or -ENOMEM. */
int samples_trail_add(struct samples_trail *trail, uint32_t thread, uint64_t address, uint64_t ns);

/* Walk the trails: `callers` is filled in. 0 or -ENOMEM. */
int samples_trail_walk(struct samples_trail *trail);

#endif
