/* SPDX-License-Identifier: MIT */
/* Which registers are dead. Derived from the code ahead alone: no calling convention is assumed. */
#ifndef ENGINE_LIVENESS_H
#define ENGINE_LIVENESS_H

#include <stdint.h>

#define LIVENESS_FLAGS 0x10000u

/*
 * What all code from pc on writes before it reads it: general registers by their numbers, and
 * LIVENESS_FLAGS for the arithmetic flags. 0: nothing is known to be dead.
 */
uint32_t liveness_dead(uint64_t pc);

#endif
