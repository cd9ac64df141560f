/* SPDX-License-Identifier: MIT */
/*
 * Which block mostly follows which. profile.h counts it from the recorded words; the translator
 * lays hot traces out by it.
 *
 * Under the engine's lock.
 */
#ifndef INSIDE_ENGINE_EDGES_H
#define INSIDE_ENGINE_EDGES_H

#include <stdint.h>

/* Get the memory, unless it is there. 0, or -ENOMEM. Before the next two. */
int edges_open(void);

/* The block at `to` ran after the one at `from`. */
void edges_vote(uint64_t from, uint64_t to);

/* A vote from there comes soon. */
void edges_prefetch(uint64_t from);

/* Where the block that begins at `start` mostly led; 0: it was not seen. */
uint64_t edges_next(uint64_t start);

/* The same, if it seldom led elsewhere. */
uint64_t edges_sure(uint64_t start);

#endif
