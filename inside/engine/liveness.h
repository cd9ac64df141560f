/* SPDX-License-Identifier: MIT */
/* Which registers are dead. Derived from the code ahead alone: no calling convention is assumed. */
#ifndef INSIDE_ENGINE_LIVENESS_H
#define INSIDE_ENGINE_LIVENESS_H

#include "inside/engine/code_read.h"

#include <stdint.h>

#define LIVENESS_FLAGS 0x10000u

/*
 * What all code from pc on writes before it reads it: general registers by their numbers, and
 * LIVENESS_FLAGS for the arithmetic flags. 0: nothing is known to be dead. Code that is not at hand
 * counts as unknown.
 */
uint32_t liveness_dead(struct code_read *read, uint64_t pc);

#endif
