/* SPDX-License-Identifier: MIT */
/*
 * A process that has just executed a program, and stands before its first instruction, makes system calls for us: by
 * an instruction that we put where it stands, and take away again. Nobody has seen anything of it yet, and should we die
 * it dies too; so this is far simpler than what session/borrow.h does to a process that runs.
 *
 * All calls come from the thread that traces it.
 */
#ifndef SESSION_TRAIL_SOFT_LOAN_H
#define SESSION_TRAIL_SOFT_LOAN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

struct soft_loan {
	pid_t pid;
	struct user_regs_struct regs; /* as the program begins */
	uint64_t mask;		      /* its blocked signals */
	uint64_t at;
	long stood;	  /* there */
	uint64_t signals; /* that it was about to get: a bit each, from 1 on */
};

/*
 * From its PTRACE_EVENT_EXEC stop on, seized with PTRACE_O_TRACESYSGOOD. 0; -ESRCH: it has ended; -errno.
 * -WM_E_FOREIGN_ARCH: it is no 64-bit program.
 */
int soft_loan_begin(struct soft_loan *loan, pid_t pid);

/* Make a call. 0 or as above; *result is what the kernel returned, -errno too. */
int soft_loan_call(struct soft_loan *loan, long number, const uint64_t arguments[6],
		   int64_t *result);

/* Write into its memory. 0 or -errno. */
int soft_loan_write(const struct soft_loan *loan, uint64_t address, const void *bytes,
		    size_t count);

/* All as it was, but where it goes on, and two registers. Let go of with soft_loan_let_go(). */
int soft_loan_end(struct soft_loan *loan, uint64_t rip, uint64_t rdi, uint64_t rsi);
int soft_loan_let_go(const struct soft_loan *loan);

#endif
