/* SPDX-License-Identifier: MIT */
/*
 * From a program address to where its translation is entered by an indirect branch: one pointer for each value of an address's low
 * half, in 32 GiB of address space of which only what is needed is ever memory. Translated code jumps through it with no
 * comparison, so two pieces of code must not have the same low half.
 *
 * It lies where a displacement of 32 bits reaches it without a base. An entry never touched is 0: the jump goes
 * to address 0, faults, and the fault is a miss; the page's other entries then lead to gate_miss at once.
 */
#ifndef AGENT_TRAIL_MAP_H
#define AGENT_TRAIL_MAP_H

#include <stdint.h>

#define MAP_AT UINT64_C(0x70000000)
#define MAP_BYTES (UINT64_C(8) << 32)

/* 0, or -ENOMEM: that address space is in use, or limited. */
int map_open(void);

/* Indirect branches to pc go to `landing` from now on; 0: to gate_miss. */
void map_set(uint64_t pc, uint64_t landing);

/* Somebody will come to pc by an indirect branch: a miss there is no fault. */
void map_known(uint64_t pc);

/* Nothing in [start, end) is known any more. */
void map_clear(uint64_t start, uint64_t end);

#endif
