/* SPDX-License-Identifier: MIT */
/*
 * The memory for translated code. Each area is near the program code whose translations it holds,
 * so that addresses relative to the instruction pointer reach it. Hot code grows from an area's
 * beginning, rarely run code from its middle.
 *
 * All under the engine's lock, except lookups of existing code.
 */
#ifndef INSIDE_ENGINE_CACHE_H
#define INSIDE_ENGINE_CACHE_H

#include "inside/engine/trace.h"

#include <stdint.h>

#define CACHE_PIECE_BYTES ENGINE_CODE_PIECE_BYTES

/* No trace has more code than that. */
#define CACHE_HOT_MAX 32768u
#define CACHE_COLD_MAX 8192u

/* An area begins with what its code needs at hand. */
struct cache_head {
	struct engine_code_head code;
	/* what a word adds to xmm15, by the blocks of its path; 16-byte aligned */
	uint64_t steps[TRACE_BLOCKS_MAX + 1][2];
	uint64_t gate_exit, gate_miss, gate_syscall, gate_refused, gate_changed;
	uint8_t exit_jump[16]; /* jmp *gate_exit: where exits lead that are not linked */
};

struct cache_area {
	struct cache_head *head; /* NULL: no area */
	uint32_t generation;
	uint32_t bytes;
	uint8_t *hot, *hot_end;
	uint8_t *cold, *cold_end;
	uint8_t *hot_ready, *cold_ready; /* memory_ready() */
	uint32_t *firsts; /* a word for each piece of CACHE_PIECE_BYTES: trace_of()'s */
};

/*
 * The area for code at `pc`, with room for a trace. It reaches what is near pc, unless there are
 * many areas already or no memory is free there; then any area. NULL: none has room.
 */
struct cache_area *cache_area_for(uint64_t pc);

/* Whether it reaches what code at `pc` may ask for. */
int cache_is_near(const struct cache_area *area, uint64_t pc);

/* One that reaches what code at `pc` asks for at `to`, too. NULL: none can be had. */
struct cache_area *cache_area_between(uint64_t pc, uint64_t to);

/* The exit_jump of the area that an address is in. */
const uint8_t *cache_exit_jump(const uint8_t *address);

/* Have a jump's four bytes lead there, while it may be run; 0, or -ERANGE: it is too far. */
int cache_jump_set(uint8_t *jump, const uint8_t *to);

/* The word for the piece of an area that an address is in; NULL: it is in none. */
uint32_t *cache_first(uint64_t address);

/* How much code there is since the last turn. */
uint64_t cache_used(void);

/*
 * New code goes to new areas from now on. What the areas before are called, for cache_drop(), which
 * frees them.
 */
uint32_t cache_turn(void);
void cache_drop(uint32_t generation);

/* Whether it is in any area. */
int cache_has(uint64_t address);

#endif
