/* SPDX-License-Identifier: MIT */
/* Calling ordinary code from where the program expects no call: the vector registers are kept. */
#ifndef ARCH_VECTORS_H
#define ARCH_VECTORS_H

/* Find out how much there is to keep. Once, before vectors_call(). */
void vectors_init(void);

/*
 * fn(arg), with every x87, SSE, AVX and AVX-512 register as it was afterwards (AMX tiles are not
 * touched by ordinary code). Takes up to about 3 KiB of stack. Any thread, any signal handler.
 */
long vectors_call(long (*fn)(void *), void *arg);

/*
 * The same for stacks with little room left, as those of signals and coroutines: the registers
 * are kept elsewhere, and it takes what `fn` takes and 100 bytes. Where more than 64 threads do
 * that at once, the others keep them on their stacks.
 */
long vectors_call_aside(long (*fn)(void *), void *arg);

#endif
