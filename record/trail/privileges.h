/* SPDX-License-Identifier: MIT */
/*
 * Programs that gain privileges as they are executed, by the setuid or setgid bit or by file
 * capabilities: the kernel does not grant them if the tracer lacks CAP_SYS_PTRACE.
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

#endif
