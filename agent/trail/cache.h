/* SPDX-License-Identifier: MIT */
/*
 * Where translated code lies: areas, each near enough to the program's code that it holds translations of for an address relative to
 * the instruction pointer to reach. Hot code grows from an area's beginning, what is seldom run from its middle. All
 * under the engine's lock, but for looks at what is already there.
 */
#ifndef AGENT_TRAIL_CACHE_H
#define AGENT_TRAIL_CACHE_H

#include <stdint.h>

#define CACHE_AREA_BYTES (64u << 20)

/* An area begins with what its code needs at hand. */
struct cache_head {
	uint64_t step[2]; /* what a word adds to xmm15; 16-byte aligned */
	uint64_t gate_exit, gate_miss, gate_syscall, gate_refused;
	uint8_t exit_jump[16]; /* jmp *gate_exit: where exits lead that are not linked */
};

struct cache_area {
	struct cache_head *head;
	uint8_t *hot, *hot_end;
	uint8_t *cold, *cold_end;
	uint8_t *hot_ready, *cold_ready; /* memory_ready() */
};

/* The area for code at `pc`, with room for a trace. NULL: no memory can be had there. */
struct cache_area *cache_area_for(uint64_t pc);

/* The exit_jump of the area that an address is in. */
const uint8_t *cache_exit_jump(const uint8_t *address);

/* Have a jump's four bytes lead there, while it may be run; 0, or -ERANGE: it is too far. */
int cache_jump_set(uint8_t *jump, const uint8_t *to);

/* Whether it is in any area. */
int cache_has(uint64_t address);

#endif
