/* SPDX-License-Identifier: MIT */
/*
 * Where breakpoints enter (agent/detour/trap.h), and how a handler of the program's is called from there.
 */
#ifndef ARCH_TRAP_H
#define ARCH_TRAP_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#define TRAP_OPCODE 0xcc
#define TRAP_BYTES 1

/* What a handler installed by system call returns to: rt_sigreturn(2), in the bytes that debuggers know. */
void trap_restore(void);

/*
 * handler(number, info, context) on the stack that ends at `stack_end`, or, where that is 0, on this one.
 * The handler may leave by siglongjmp.
 */
void trap_call(uintptr_t handler, long number, siginfo_t *info, ucontext_t *context,
	       uintptr_t stack_end);

/* The interrupted program counter, behind the breakpoint. */
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

/* Words from a signal frame's program counter to the mask that its return restores. */
#define TRAP_FRAME_MASK_WORDS 16u
_Static_assert(offsetof(ucontext_t, uc_sigmask) -
			       offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP]) ==
		       TRAP_FRAME_MASK_WORDS * 8,
	       "as struct ucontext has it (asm/ucontext.h)");

#endif
