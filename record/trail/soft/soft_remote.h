/* SPDX-License-Identifier: MIT */
/*
 * A process that has just executed a program, and is stopped before its first instruction, makes
 * system calls for us, as target/process/remote_thread.h has it. If we die, it begins its program
 * by itself. Where no module has room for that code, the code overwrites the program's first
 * instructions; such a process dies with us.
 *
 * All calls come from the thread that traces it.
 */
#ifndef RECORD_TRAIL_SOFT_SOFT_REMOTE_H
#define RECORD_TRAIL_SOFT_SOFT_REMOTE_H

#include "target/process/remote_thread.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/user.h>

#define SOFT_REMOTE_OPTIONS (PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD)

struct soft_remote {
	pid_t pid;
	struct user_regs_struct regs; /* as the program begins */
	struct remote_thread thread;
};

/*
 * From its PTRACE_EVENT_EXEC stop on, seized with PTRACE_O_TRACESYSGOOD. 0; -ESRCH: it has ended;
 * -errno. -WM_E_FOREIGN_ARCH: it is no 64-bit program.
 */
int soft_remote_begin(struct soft_remote *remote, pid_t pid);

/* Make a call. 0 or as above; *result is what the kernel returned, -errno too. */
int soft_remote_call(struct soft_remote *remote, long number, const uint64_t arguments[6],
		     int64_t *result);

/* Write into its memory. 0 or -errno. */
int soft_remote_write(const struct soft_remote *remote, uint64_t address, const void *bytes,
		      size_t count);

/*
 * Restore all but the place where it continues, and three registers. soft_remote_let_go() must
 * follow.
 */
int soft_remote_end(struct soft_remote *remote, uint64_t rip, uint64_t rdi, uint64_t rsi,
		    uint64_t rdx);
int soft_remote_let_go(struct soft_remote *remote);

#endif
