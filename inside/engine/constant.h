/* SPDX-License-Identifier: MIT */
/*
 * Memory that no code writes: the program has made it PROT_READ alone. A loader does so with the
 * addresses of other modules' functions (RELRO). A value that code reads there is known at
 * translation, until the program changes the mapping.
 *
 * Under the engine's lock.
 */
#ifndef INSIDE_ENGINE_CONSTANT_H
#define INSIDE_ENGINE_CONSTANT_H

#include "inside/engine/code_read.h"

#include <stdint.h>

/* [start, start + bytes) can only be read from now on. */
void constant_add(uint64_t start, uint64_t bytes);

/* Nothing is known of it any more. */
void constant_drop(uint64_t start, uint64_t bytes);

/*
 * The eight bytes at `address`, a multiple of eight. 0: they are 0, not constant, or not at hand.
 */
uint64_t constant_at(struct code_read *read, uint64_t address);

#endif
