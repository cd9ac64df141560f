/* SPDX-License-Identifier: MIT */
/*
 * Signals that a thread has taken from the kernel and not given to the program yet. All others are blocked meanwhile, so
 * that there is one at most, but for those of the engine's own, of which each number can wait once, as in the kernel.
 */
#ifndef AGENT_TRAIL_HELD_H
#define AGENT_TRAIL_HELD_H

#include "agent/trail/thread.h"

void held_add(struct thread *thread, const siginfo_t *info);

/* The next that the program has not blocked: 1, and it is held no more. */
int held_take(struct thread *thread, siginfo_t *info);

/* Their numbers; whether the program would take one of them. */
uint64_t held_set(const struct thread *thread);
int held_is_due(const struct thread *thread);

/*
 * The thread is about to wait for signals of that set, with all blocked in the kernel that the program has blocked: they go back
 * to the kernel, and what comes to others meanwhile is passed on. Until held_wait_over().
 */
void held_wait(struct thread *thread, uint64_t set);
void held_wait_over(struct thread *thread);

/* It is what another thread has passed on to who waits: 1, and *info what it was. */
int held_was_passed(siginfo_t *info);

/* Back to the kernel for good; `is_last`: the process's, too. */
void held_give_back(struct thread *thread, int is_last);

#endif
