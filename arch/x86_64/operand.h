/* SPDX-License-Identifier: MIT */
/*
 * What an exchange had in its register: xchg and xadd leave the old value of memory there.
 * Compilers fill that register a few instructions before: by a number, from another register, or
 * from memory.
 *
 * A jump may lead between these and the exchange, so the value is a guess: the caller compares what
 * follows from it with memory. Hit path.
 */
#ifndef ARCH_X86_64_OPERAND_H
#define ARCH_X86_64_OPERAND_H

#include "arch/access_decode.h"

/*
 * The value, widened by zeros, of the exchange that begins at `at`. 0; -1: the code in front does
 * not show it. `context` is the thread's behind the exchange.
 */
int operand_before(uint64_t *value, const struct written *exchange, uint64_t at,
		   const ucontext_t *context, const struct access_decode_reads *reads);

#endif
