/* SPDX-License-Identifier: MIT */
/*
 * The module's segment at an address of the process, if the registry knows it. Under the agent's
 * lock.
 */
#ifndef INSIDE_DETOUR_SEGMENTS_H
#define INSIDE_DETOUR_SEGMENTS_H

#include "inside/marker/marker.h"

#include <stdint.h>

/* The segment that holds all of [start, end); NULL. */
const struct segment *segments_find(uintptr_t start, uintptr_t end);

/* What a hit runs can't be hit itself. */
int segments_is_agents(uintptr_t start, uintptr_t end);

#endif
