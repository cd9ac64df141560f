/* SPDX-License-Identifier: MIT */
/*
 * Memory of the engine's own: mapped, never the program's heap; given out and never taken back
 * piece by piece.
 */
#ifndef INSIDE_ENGINE_ENGINE_MEMORY_H
#define INSIDE_ENGINE_ENGINE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/*
 * From now on, what the kernel would place is at random addresses of the engine's own
 * (ENGINE_REGION_AT, ENGINE_FAR_AT). The kernel would place it beside the program's libraries:
 * there it takes the addresses that translated code of theirs needs, and that a stack grows into.
 */
void memory_open(int is_far);

uint64_t memory_random(void);

/*
 * Whole pages, zeroed, paid for when touched; at `at` exactly if that is not 0. NULL: there is no
 * room there, or none.
 */
void *memory_map(uint64_t at, size_t bytes, int protection);

/* Why the kernel refused memory for code last, other than for its addresses; 0: it did not. */
int memory_code_error(void);
void memory_unmap(void *at, size_t bytes);

/*
 * The same, and copies of the process don't have it, unless they are recorded: whatever only
 * translated code needs.
 */
void *memory_map_alone(uint64_t at, size_t bytes, int protection);

/*
 * It was mapped for us by others, and copies of the process never have it. is_copied: they have all
 * that is mapped by memory_map_alone() from then on.
 */
void memory_own(void *at, size_t bytes, int is_copied);

/* The same place was mapped again: no copy of the process, and no core, has it. */
void memory_spare(void *at, size_t bytes);

/* Pages that were mapped without access can be read and written from now on. 0 or -errno. */
int memory_write(void *at, size_t bytes);

/* They are as they were mapped, without access. 0; -errno: they are zeroed alone. */
int memory_renew(void *at, size_t bytes);

/* Zeroed, aligned to 8, at most 256 KiB. NULL: no memory. Under the engine's lock. */
void *memory_get(size_t bytes);

/* All that memory_get() has given since the last turn: memory_drop() takes it back, at once. */
void *memory_turn(void);
void memory_drop(void *was);

static inline void memory_copy(void *to, const void *from, size_t bytes)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

static inline void memory_clear(void *at, size_t bytes)
{
	__asm__ volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(0) : "memory");
}

/*
 * Memory that grows is about to be written up to `up_to`: its pages come many at a time, where the
 * kernel can do that, instead of by a fault each. *ready: up to where they have; who calls keeps
 * it, at first its beginning.
 */
void memory_ready(uint8_t **ready, const void *up_to);

#endif
