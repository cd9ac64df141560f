/* SPDX-License-Identifier: MIT */
/*
 * Stores of vector registers: how many bytes each writes, and the values where the frame has the
 * registers. These functions fill in all of a struct written but its address. Hit path.
 */
#ifndef ARCH_X86_64_STORED_H
#define ARCH_X86_64_STORED_H

#include "arch/written.h"
#include "arch/x86_64/parts.h"

/* SSE and VEX stores of the map 0F. Returns whether it is one. */
int stored_vector(struct written *written, const struct parts *parts, const ucontext_t *context);

/*
 * EVEX stores, and VEX stores of the other maps: sets `bytes` of *written. Others do not change it.
 */
void stored_other(struct written *written, const struct parts *parts, const ucontext_t *context);

/* A store of `bytes` bytes whose mask is the signs of the elements of vector register `mask`. */
void stored_by_signs(struct written *written, const struct parts *parts, unsigned int mask,
		     unsigned int element, unsigned int bytes, const ucontext_t *context);

int stored_is_scatter(const struct parts *parts);

/*
 * A scatter, which cleared its mask: it may have written each of its elements. *written says the
 * stretch from the first to the last. 0; -1: the frame does not have the indices.
 */
int stored_scatter(struct written *written, const struct parts *parts, unsigned int modrm_at,
		   const ucontext_t *context);

#endif
