/* SPDX-License-Identifier: MIT */
/*
 * Stacks of our own for hits on an alternate signal stack. Such a stack often has room for one
 * signal's frame and for little more (SIGSTKSZ is 8192; a frame has 3.4 kB with AVX-512). The
 * kernel puts the frame of our signal there; the handler's work runs on a stack of this pool. All
 * signals are blocked meanwhile, but SIGTRAP where a watch may be of a stack (trap.c). So no other
 * handler starts at the top of the alternate stack. Hit path.
 */
#ifndef INSIDE_WATCH_SPARE_H
#define INSIDE_WATCH_SPARE_H

#include <stdint.h>
#include <ucontext.h>

/*
 * Map their memory, before the first watch; it is never freed. It is not part of our library's
 * memory: such a large library beside the C library took the space for the landings of guards.
 */
#define SPARE_BYTES (512u * 1024)
int spare_is_there(void);
void spare_provide(void *start);

/* Whether what the context interrupted runs on the thread's alternate stack. */
int spare_is_wanted(const ucontext_t *context);

/* The end of a stack that is the caller's until spare_give(); 0: all are in use. */
uintptr_t spare_take(void);
void spare_give(uintptr_t end);

/* Whether an address is in one of them. */
int spare_has(uintptr_t address);

/* In a forked child: the threads that had one are not there. */
void spare_forked(void);

#endif
