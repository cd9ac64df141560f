/* SPDX-License-Identifier: MIT */
/*
 * Pending signals: a thread took them from the kernel and has not given them to the program yet.
 *
 * All others are blocked meanwhile, so there is one at most. The engine's own signals are the
 * exception: of each number one can be pending, as in the kernel.
 */
#ifndef INSIDE_ENGINE_PENDING_SIGNALS_H
#define INSIDE_ENGINE_PENDING_SIGNALS_H

#include "inside/engine/engine_thread.h"

void pending_signals_add(struct thread *thread, const siginfo_t *info);

/* The next that the program has not blocked: 1, and it is held no more. */
int pending_signals_take(struct thread *thread, siginfo_t *info);

/* Their numbers; whether the program would take one of them. */
uint64_t pending_signals_set(const struct thread *thread);
int pending_signals_is_due(const struct thread *thread);

/*
 * The thread is about to wait for signals of that set, with all blocked in the kernel that the
 * program has blocked: they go back to the kernel, and what comes to others meanwhile is passed on.
 * Until pending_signals_wait_over().
 */
void pending_signals_wait(struct thread *thread, uint64_t set);
void pending_signals_wait_over(struct thread *thread);

/* It is what another thread has passed on to this one: 1, and *info what it was. */
int pending_signals_was_passed(const struct thread *thread, siginfo_t *info);

/* Return pending signals to the kernel as the thread leaves; `is_last`: the process's, too. */
void pending_signals_restore(struct thread *thread, int is_last);

#endif
