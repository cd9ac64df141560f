/* SPDX-License-Identifier: MIT */
/*
 * From a program address to where its translation is entered by an indirect branch: one pointer for each value of an address's low
 * half, in 32 GiB of address space at random, of which only what is needed is ever memory, and the rest has no access: what the
 * program reads or writes there by mistake fails as it does natively. Translated code jumps through it with no
 * comparison, so where two pieces of code have the same low half neither is ever entered: both are always a miss.
 *
 * It lies where a displacement of 32 bits reaches it without a base, if that can be had. An entry never touched can't be read, or is 0:
 * the jump faults, here or at address 0, and the fault is a miss; the page's other entries then lead to gate_miss at once.
 */
#ifndef AGENT_TRAIL_MAP_H
#define AGENT_TRAIL_MAP_H

#include <stdint.h>

/* Where it needs no base: from there on, within so many bytes. */
#define MAP_AT UINT64_C(0x70000000)
#define MAP_AT_BYTES UINT64_C(0x0fff0000)

/*
 * `is_far`: leave the place that needs no base to the program. 0, or -EADDRNOTAVAIL: so much address space is not to be
 * had.
 */
int map_open(int is_far);

/*
 * There is code of the program's in the page of pc. Where other code has the same low half, which was not so before, the page of that:
 * no entry of theirs is set from now on, but what was translated of it must be given up. 0: none has.
 */
uint64_t map_claim(uint64_t pc);

/* Whether its low half is not its own. */
int map_is_shared(uint64_t pc);

/* There is none any more, nor traces of it. */
void map_disclaim(uint64_t start, uint64_t bytes);

/* Indirect branches to pc go to `landing` from now on; 0: to gate_miss. */
void map_set(uint64_t pc, uint64_t landing);

/* Somebody will come to pc by an indirect branch: a miss there is no fault. */
void map_known(uint64_t pc);

/* It takes more memory than it should. */
int map_is_large(void);

/* Nothing is known any more. */
void map_clear(void);

/* Code for the jump: rcx is the low half of where to, and lost. */
uint8_t *map_emit_jump(uint8_t *at);

/* In that code, at the jump itself: *entry is the address that it reads. 0: it is no such jump. Any thread. */
int map_is_jump(const uint8_t *at, uint64_t rcx, uint64_t *entry);

/* Where that jump leads now. */
uint64_t map_landing(uint64_t entry);

#endif
