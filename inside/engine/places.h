/* SPDX-License-Identifier: MIT */
/*
 * The engine's own memory: the program must not touch it, and it is unmapped with the engine. May
 * be called from anywhere, also from handlers.
 */
#ifndef INSIDE_ENGINE_PLACES_H
#define INSIDE_ENGINE_PLACES_H

#include "abi/engine.h"

#include <stdint.h>

#define PLACES_MAX 16384u /* what is beyond is not known to be ours */

/* We have mapped it. `is_chosen`: there by us, not by the kernel, for translated code only. */
void places_add(uint64_t start, uint64_t bytes, int is_chosen);
void places_drop(uint64_t start);

/* The tool has mapped it for us, and unmaps it. */
void places_given(uint64_t start, uint64_t bytes);

/* For the tool: our mappings, PLACES_MAX entries, some of them empty. */
const struct engine_mapping *places_all(void);

/* Some of [start, start + bytes) is ours. */
int places_meet(uint64_t start, uint64_t bytes);

/*
 * 1: *ours is the lowest of our mappings that overlaps [start, start + bytes); 0: no mapping does.
 */
int places_first(uint64_t start, uint64_t bytes, struct engine_mapping *ours);

/* Something that we have mapped begins right there. */
int places_begin(uint64_t start);

/*
 * All threads have left but one that is about to: the addresses that we have chosen are the
 * program's again.
 */
void places_vacate(void);

#endif
