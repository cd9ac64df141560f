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

/* It is mapped for us until places_drop(), or places_vacate(), which unmaps it. */
void places_add(uint64_t start, uint64_t bytes);
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
 * All threads have left, but may be on their stacks yet: unmap all that was added, except for what
 * has `kept_bytes`, which is threads'. The program's limits of memory count it no more.
 */
void places_vacate(uint64_t kept_bytes);

#endif
