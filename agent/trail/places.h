/* SPDX-License-Identifier: MIT */
/* Where memory of the engine's own lies: what the program must not get hold of, and what goes with the engine. Asked from anywhere, handlers too. */
#ifndef AGENT_TRAIL_PLACES_H
#define AGENT_TRAIL_PLACES_H

#include "abi/engine.h"

#include <stdint.h>

#define PLACES_MAX 16384u /* what is beyond is not known to be ours */

/* We have mapped it. `is_chosen`: there by us, not by the kernel, for translated code only. */
void places_add(uint64_t start, uint64_t bytes, int is_chosen);
void places_drop(uint64_t start);

/* The tool has mapped it for us, and unmaps it. */
void places_given(uint64_t start, uint64_t bytes);

/* For the tool: what we have mapped, PLACES_MAX of them, some of which are none. */
const struct engine_mapping *places_all(void);

/* Some of [start, start + bytes) is ours. */
int places_meet(uint64_t start, uint64_t bytes);

/* 1: *ours is the lowest of our mappings that overlaps [start, start + bytes); 0: no mapping does. */
int places_first(uint64_t start, uint64_t bytes, struct engine_mapping *ours);

/* Something that we have mapped begins right there. */
int places_begin(uint64_t start);

/* All threads have left but one that is about to: the addresses that we have chosen are the program's again. */
void places_vacate(void);

#endif
