/* SPDX-License-Identifier: MIT */
/* Which registers nobody will miss. Told by the code ahead alone: no calling convention is assumed. */
#ifndef AGENT_TRAIL_LIVENESS_H
#define AGENT_TRAIL_LIVENESS_H

#include <stdint.h>

#define LIVENESS_FLAGS 0x10000u

/*
 * What is surely written before it is read by whatever runs from pc on: general registers by their numbers, and LIVENESS_FLAGS
 * for the arithmetic flags. 0: nothing is known to be.
 */
uint32_t liveness_dead(uint64_t pc);

#endif
