/* SPDX-License-Identifier: MIT */
/*
 * Programs that gain privileges when executed: the kernel does not grant them if the tracer lacks
 * CAP_SYS_PTRACE.
 */
#ifndef RECORD_TRAIL_PRIVILEGES_H
#define RECORD_TRAIL_PRIVILEGES_H

#include <sys/types.h>
#include <sys/user.h>

/*
 * Whether a thread, before the system call of these registers (orig_rax), is about to execute such
 * a program, and tracing would prevent its privileges.
 */
int privileges_gained(pid_t tid, const struct user_regs_struct *regs);

/* Yama lets us trace only the processes that name us: PR_SET_PTRACER. */
int privileges_must_be_named(void);

#endif
