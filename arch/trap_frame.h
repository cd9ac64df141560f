/* SPDX-License-Identifier: MIT */
/*
 * What the handler of SIGTRAP needs (inside/watch/trap.h): the target's context, and how it calls
 * the target's own handler.
 */
#ifndef ARCH_TRAP_FRAME_H
#define ARCH_TRAP_FRAME_H

#include <signal.h>
#include <stdint.h>
#include <ucontext.h>

#define TRAP_OPCODE 0xcc
#define TRAP_BYTES 1

/*
 * What a handler installed by system call returns to: rt_sigreturn(2), in the bytes that debuggers
 * know.
 */
void trap_restore(void) __asm__("__restore_rt");

/*
 * handler(number, info, context) on the stack that ends at `stack_end`, or, where that is 0, on
 * this one. The handler may leave by siglongjmp.
 */
void trap_call(uintptr_t handler, long number, siginfo_t *info, ucontext_t *context,
	       uintptr_t stack_end);

/* The interrupted program counter. */
static inline uintptr_t trap_pc(const ucontext_t *context)
{
	return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
}

static inline void trap_set_pc(ucontext_t *context, uintptr_t pc)
{
	context->uc_mcontext.gregs[REG_RIP] = (greg_t)pc;
}

static inline uintptr_t trap_stack(const ucontext_t *context)
{
	return (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
}

#endif
