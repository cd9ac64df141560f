/* SPDX-License-Identifier: MIT */
/*
 * A thread of the program is about to put itself, or all threads, under a seccomp filter. Such a
 * filter may kill the process for the return from a signal, and for system calls of the agent's own
 * threads. So before the filter is there:
 *
 *   - Watches end, and their sessions are notified. No thread enters the agent's signal handler any
 *     more.
 *   - The agent no longer has the kernel read strings, and hits read no counts.
 *   - If the filter is for all threads, the agent's own threads end, and its sessions with them.
 *
 * The control thread does that (serve_yield() in inside/control/control_thread.c). The program's
 * thread waits for it: some ms, at most two seconds. Then it continues in any case. The agent sees
 * filters that do not come through libc at its next tick.
 */
#ifndef INSIDE_RUNTIME_SECCOMP_YIELD_H
#define INSIDE_RUNTIME_SECCOMP_YIELD_H

#include <stdint.h>

/*
 * Before the call, and behind it, whatever came of it. Any thread. `why`: 0, or the error for which
 * the agent's own threads end: -WM_E_SECCOMP, -WM_E_CAPABILITIES (inside/control/setxid.c).
 */
void seccomp_yield_begin(int why);
void seccomp_yield_end(void);

/* Whether any thread is between the two. */
int seccomp_yield_is_asked(void);

/* Whether the thread of that pointer waits in seccomp_yield_begin(), with all signals blocked. */
int seccomp_yield_is_waiting(uintptr_t thread_pointer);

/*
 * Whether any thread has begun since seccomp_yield_forget(): also in a child of a fork that has no
 * control thread yet. Hit path.
 */
extern uint32_t seccomp_yield_begun __attribute__((visibility("hidden")));
static inline int seccomp_yield_has_begun(void)
{
	return __atomic_load_n(&seccomp_yield_begun, __ATOMIC_ACQUIRE) != 0;
}

/* Before the control thread looks whether there are filters. */
void seccomp_yield_forget(void);

/* Whether something is asked and not done; *number: which. Control thread. */
int seccomp_yield_is_pending(uint32_t *number);

/* Why the agent's threads are to end, as seccomp_yield_begin() was given; 0: they are not. */
int seccomp_yield_is_for_all(void);

/* All that was asked up to that number is done: the threads that wait for it continue. */
void seccomp_yield_done(uint32_t number);

/* All of it is done, and the control thread is to end: why. Else 0. */
int seccomp_yield_takes_all(void);

/* The child of a fork. */
void seccomp_yield_forked(void);

#endif
