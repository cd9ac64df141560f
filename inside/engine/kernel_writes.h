/* SPDX-License-Identifier: MIT */
/*
 * What the kernel writes into the program's memory. A guard (pages.h) in its way would be -EFAULT
 * behind the call's side effect, and a call must not be made twice.
 *
 * Before a call is made, the guards of all pages that its arguments reach are removed. Until the
 * call is over none of them is guarded again: their code is checked, whichever thread runs it. The
 * kernel's later writes, and those that no argument names, expose their pages for good.
 */
#ifndef INSIDE_ENGINE_KERNEL_WRITES_H
#define INSIDE_ENGINE_KERNEL_WRITES_H

#include "inside/engine/engine_thread.h"

/*
 * The thread is about to make the call that thread->regs ask for; thread->call_next is set, and is
 * 0 behind it. Not in a handler, and without the engine's lock: this may read the program's memory.
 */
void kernel_writes_open(struct thread *thread);

/*
 * The calling thread was taken, maybe in a call: the same for that, and for what the kernel writes
 * when the thread ends. No lock is held.
 */
void kernel_writes_take(struct thread *thread);

#endif
