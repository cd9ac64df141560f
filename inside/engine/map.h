/* SPDX-License-Identifier: MIT */
/*
 * Maps a program address to the entry of its translation for indirect branches. There is one
 * pointer for each value of an address's low half, in 32 GiB of address space at a random place.
 * Only used parts become memory. The rest has no access, so the program's stray accesses fail there
 * as they do natively.
 *
 * Translated code jumps through the map with no comparison. If two pieces of code have the same low
 * half, neither is entered: both always miss.
 *
 * The map is placed where a 32-bit displacement reaches it without a base, if possible. An
 * untouched entry can't be read, or is 0. The jump then faults, here or at address 0, and the fault
 * is a miss. After it, the page's other entries lead to gate_miss directly.
 */
#ifndef INSIDE_ENGINE_MAP_H
#define INSIDE_ENGINE_MAP_H

#include <stdint.h>

/* Where it needs no base: from there on, within so many bytes. */
#define MAP_AT UINT64_C(0x70000000)
#define MAP_AT_BYTES UINT64_C(0x0fff0000)

/*
 * `is_far`: leave the place that needs no base to the program. 0, or -EADDRNOTAVAIL: so much
 * address space is not to be had.
 */
int map_open(int is_far);

/*
 * The program wants the place that needs no base: the map is elsewhere from the next generation on.
 * 0, or -ENOMEM. map_moved(): no thread is in code of an older one, and the place is free.
 */
int map_move(void);
void map_moved(void);

/*
 * The page of pc has code of the program. Returns the page of other code with the same low half, if
 * that is new; 0: none has. From now on no entry of either page is set. The caller must drop what
 * was translated of the returned page.
 */
uint64_t map_claim(uint64_t pc);

/* Whether its low half is not its own. */
int map_is_shared(uint64_t pc);

/* The range has no code and no traces any more. */
void map_disclaim(uint64_t start, uint64_t bytes);

/* Indirect branches to pc go to `landing` from now on; 0: to gate_miss. */
void map_set(uint64_t pc, uint64_t landing);

/* An indirect branch will reach pc: a miss there is no fault. */
void map_known(uint64_t pc);

/* It takes more memory than it should. */
int map_is_large(void);

/* Nothing is known any more. */
void map_clear(void);

/* Code for the jump: rcx is the low half of where to, and lost. */
uint8_t *map_emit_jump(uint8_t *at);

/*
 * In that code, at the jump itself: *entry is the address that it reads. 0: it is no such jump. Any
 * thread.
 */
int map_is_jump(const uint8_t *at, uint64_t rcx, uint64_t *entry);

/* Where that jump leads now. */
uint64_t map_landing(uint64_t entry);

#endif
