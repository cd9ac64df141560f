/* SPDX-License-Identifier: MIT */
/*
 * Guards: these run in place of libc's functions while a watch is armed (abi/detour.h,
 * DETOUR_GUARD_*), so that no thread of the target blocks SIGTRAP, and the signal's handler stays
 * ours. Each does and returns what libc's own would.
 */
#ifndef INSIDE_WATCH_GUARD_H
#define INSIDE_WATCH_GUARD_H

#include "inside/watch/trap.h"

/* pthread_sigmask(3), through which sigprocmask(2) and its older kin come. */
int guard_sigmask(int how, const sigset_t *set, sigset_t *old);

/* sigaction(2), through which signal(2) and its kin come. */
int guard_sigaction(int number, const struct sigaction *action, struct sigaction *old);

/*
 * The inner function of sigaction(2), by which pthread_cancel(3) and setuid(2) set the handlers of
 * libc's own signals: the caller has made sure that no one else sets those.
 */
int guard_inner_sigaction(int number, const struct sigaction *action, struct sigaction *old);

/*
 * What prctl(3) and syscall(3) come to (arch/guard_entry.h) where the call may install a seccomp
 * filter: what a filter might kill the program for is taken away before
 * (inside/runtime/seccomp_yield.h).
 */
long guard_filter(long number, long a, long b, long c, long d, long e);

/* Their end when the kernel said -errno: -1, and errno. */
long guard_failed(long error);

/* Which of them DETOUR_GUARD_* asks for. */
uint64_t guard_entry(uint8_t flags);

#endif
