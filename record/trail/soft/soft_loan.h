/* SPDX-License-Identifier: MIT */
/*
 * A process that has just executed a program, and is stopped before its first instruction, makes
 * system calls for us, as target/process/borrow.h has it. If we die, it begins its program by
 * itself. Where no module has room for that code, the code overwrites the program's first
 * instructions; such a process dies with us.
 *
 * All calls come from the thread that traces it.
 */
#ifndef RECORD_TRAIL_SOFT_SOFT_LOAN_H
#define RECORD_TRAIL_SOFT_SOFT_LOAN_H

#include "target/process/borrow.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/user.h>

#define SOFT_LOAN_OPTIONS (PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD)

struct soft_loan {
	pid_t pid;
	struct user_regs_struct regs; /* as the program begins */
	struct borrow borrow;
};

/*
 * From its PTRACE_EVENT_EXEC stop on, seized with PTRACE_O_TRACESYSGOOD. 0; -ESRCH: it has ended;
 * -errno. -WM_E_FOREIGN_ARCH: it is no 64-bit program.
 */
int soft_loan_begin(struct soft_loan *loan, pid_t pid);

/* Make a call. 0 or as above; *result is what the kernel returned, -errno too. */
int soft_loan_call(struct soft_loan *loan, long number, const uint64_t arguments[6],
		   int64_t *result);

/* Write into its memory. 0 or -errno. */
int soft_loan_write(const struct soft_loan *loan, uint64_t address, const void *bytes,
		    size_t count);

/*
 * Restore all but the place where it continues, and three registers. soft_loan_let_go() must
 * follow.
 */
int soft_loan_end(struct soft_loan *loan, uint64_t rip, uint64_t rdi, uint64_t rsi, uint64_t rdx);
int soft_loan_let_go(struct soft_loan *loan);

#endif
