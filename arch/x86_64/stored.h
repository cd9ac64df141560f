/* SPDX-License-Identifier: MIT */
/*
 * Stores of vector registers: which bytes each writes, and the values where the frame has the
 * registers. Hit path.
 *
 * A mask may exclude bytes. On AMD's Zen 5 a debug register also fires for those. SDM volume 2,
 * 2.7.5.
 */
#ifndef ARCH_X86_64_STORED_H
#define ARCH_X86_64_STORED_H

#include "arch/written.h"
#include "arch/x86_64/parts.h"

/*
 * From INSN_STORE_VECTOR on. *written has the address and the number of bytes. Sets `kept`, if the
 * frame has the mask, and then the value, if the frame has the register.
 */
void stored_vector(struct written *written, const struct parts *parts, const ucontext_t *context);

/*
 * A scatter, which cleared its mask: it may have written each of its elements. *written has the
 * address without the indices; it gets the stretch from the first element to the last. 0; -1: the
 * frame does not have the indices.
 */
int stored_scatter(struct written *written, const struct parts *parts, const ucontext_t *context);

#endif
