/* SPDX-License-Identifier: MIT */
/*
 * For tests: a program that never was and what it did, drawn at random, to be written with paths
 * and without.
 */
#ifndef TRACE_TRAIL_TESTING_WALK_H
#define TRACE_TRAIL_TESTING_WALK_H

#include "trace/trail/testing/trail.h"

#define SAMPLE_WALK_BLOCKS 64u
#define SAMPLE_WALK_PATH_MAX 12u

/*
 * The thread's trail, which has begun, continues with so many paths and some events between, the
 * same for a seed however they are written. `bases`: the program's address, at first, and from the
 * middle on. How many blocks that were.
 */
uint64_t sample_walk(struct sample_trail *sample, uint64_t seed, unsigned int paths, int has_paths,
		     const uint64_t bases[2]);

#endif
