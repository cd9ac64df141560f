/* SPDX-License-Identifier: MIT */
/*
 * The engine makes way for what the program asks the kernel for, and could not have with it:
 * filters of all threads' calls, its own gs, memory where ours is, limits that count our memory.
 * All threads leave first, those in system calls, too, which make them again natively; who has
 * asked leaves last, and makes its call natively.
 */
#ifndef INSIDE_ENGINE_WITHDRAW_H
#define INSIDE_ENGINE_WITHDRAW_H

#include "abi/engine.h"
#include "inside/engine/engine_thread.h"

/* No lock is held. The call is the one at pc. */
void withdraw(struct thread *thread, uint64_t pc, enum engine_native why) __attribute__((noreturn));

/*
 * The same for a call that must find the engine's memory unmapped. It returns -ENOMEM, and the call
 * must not be made, where a thread does not leave in time: one in vfork(2), or that the kernel does
 * not wake.
 */
long withdraw_wholly(struct thread *thread, uint64_t pc, enum engine_native why);

/*
 * Before a call that is about memory: it withdraws if that is ours, and returns if not. 0, or
 * -ENOMEM: others are still here.
 */
long withdraw_from_memory(struct thread *thread, uint64_t pc);

#endif
