/* SPDX-License-Identifier: MIT */
/*
 * The processor-specific part of borrowing a thread of another process for a few system calls. Used
 * only from outside; target/process/remote_thread.c describes the protocol.
 *
 * The borrowed thread executes nothing but this code, which the tool writes into the process:
 *
 *	call:     system call instruction
 *	restore:  load the signal mask, then every register, as they were; jump to where it was
 *
 * Between two calls the thread is stopped right behind `call`. So whenever its tracer dies, it
 * gives itself back. All code is position independent and keeps its data beside it, read-only.
 */
#ifndef ARCH_REMOTE_SYSCALL_H
#define ARCH_REMOTE_SYSCALL_H

#include "arch/halt.h"

#include <stddef.h>
#include <stdint.h>

/* The system call that the thread is in, or just comes out of; -1: none. */
long remote_regs_call_number(const struct halt_regs *regs);

/*
 * Whether a stack's words, `count` of them from the first, can be the frame that the kernel leaves
 * as it enters a signal handler; *pc and *stack are then those of the interrupted code. The first
 * word leads to code of the process, which this function does not read.
 */
int remote_is_signal_frame(const uint64_t *words, size_t count, uint64_t *pc, uint64_t *stack);

void remote_regs_stack_set(struct halt_regs *regs, uint64_t stack);

/* What a system call returned. */
long remote_regs_result(const struct halt_regs *regs);

/*
 * Whether a thread, stopped on the way back to user mode, is in a system call that the kernel may
 * still restart; and the second changes the registers so that it does, as the kernel does if no
 * handler runs.
 */
int remote_regs_in_call(const struct halt_regs *regs);
void remote_regs_anew(struct halt_regs *regs);

size_t remote_code_bytes(void);

/* Its first REMOTE_HEAD_BYTES, which are the same at any address. */
#define REMOTE_HEAD_BYTES 16
const void *remote_code_head(void);

/*
 * Write the code, with what it restores: registers and mask as they were saved at a stop on the way
 * back to user mode. There the kernel has yet to decide whether an interrupted system call
 * restarts; the code restarts it, as the kernel does when no handler runs.
 */
void remote_code_fill(void *code, const struct halt_regs *saved, uint64_t mask);

/* Registers for one system call by the code at `at`; all else as in `saved`. */
void remote_regs_call(struct halt_regs *regs, const struct halt_regs *saved, uint64_t at,
		      long number, const uint64_t arguments[6]);

/* As remote_regs_call(), for loader_clone(): the new thread gets `data` in hand. arch/loader.h */
void remote_regs_clone(struct halt_regs *regs, const struct halt_regs *saved, uint64_t at,
		       uint64_t flags, uint64_t stack, uint64_t tid_at, uint64_t thread_pointer,
		       uint64_t data);

#endif
