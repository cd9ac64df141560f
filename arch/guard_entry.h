/* SPDX-License-Identifier: MIT */
/*
 * Where the guards of prctl(3) and syscall(3) enter (inside/watch/guard.h): by a jump, with the
 * function's own arguments, and with the number of its system call in the result's register, or 0
 * where the first argument is it.
 */
#ifndef ARCH_GUARD_ENTRY_H
#define ARCH_GUARD_ENTRY_H

/* All but what may install a seccomp filter is done as libc does it; that is guard_filter()'s. */
void guard_call(void);

#endif
