/* SPDX-License-Identifier: MIT */
#include "agent/trail/signal.h"
#include "agent/trail/cache.h"
#include "agent/trail/gate.h"
#include "agent/trail/leave.h"
#include "agent/trail/memory.h"
#include "agent/trail/ring.h"
#include "agent/trail/sys.h"
#include "agent/trail/trace.h"
#include "agent/trail/translate.h"

#include <asm/prctl.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ucontext.h>

#define SET_BYTES 8 /* of the kernel's sigset_t */

/* As the kernel has it. */
struct kernel_action {
	uint64_t handler, flags, restorer, mask;
};

#define KERNEL_SA_RESTORER 0x04000000u

static struct kernel_action action_segv; /* the program's, while ours stands in its place */

static struct thread *self(void)
{
	struct thread *thread;

	__asm__("mov %%gs:0, %0" : "=r"(thread));
	return thread;
}

static uint64_t *gpr_in(ucontext_t *context, unsigned int reg)
{
	static const uint8_t at[16] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
					REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
					REG_R12, REG_R13, REG_R14, REG_R15 };

	return (uint64_t *)&context->uc_mcontext.gregs[at[reg]];
}

static uint64_t *vector15_in(ucontext_t *context)
{
	return (uint64_t *)&context->uc_mcontext.fpregs->_xmm[15];
}

/* A word found no room: movl $id, (reg), and reg is what xmm15 is. */
static int guard_met(struct thread *thread, const siginfo_t *info, ucontext_t *context)
{
	const uint8_t *at = (const uint8_t *)context->uc_mcontext.gregs[REG_RIP];
	unsigned int reg = 0;

	if (!ring_is_guard(thread, (uint64_t)info->si_addr) || !cache_has((uint64_t)at))
		return 0;
	if (*at == 0x41) {
		reg = 8;
		at++;
	}
	reg |= at[1] & 7;
	thread->pointer = (uint64_t)info->si_addr;
	ring_turn(thread);
	*gpr_in(context, reg) = thread->pointer;
	*vector15_in(context) = thread->pointer;
	return 1;
}

/* The program's registers at a place in translated code where it stands at an instruction. */
static void to_program(struct thread *thread, ucontext_t *context)
{
	uint64_t at = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
	const struct trace *trace = trace_of(at);
	const uint8_t *cache;
	uint64_t pc = 0;
	uint32_t block = UINT32_MAX;

	if (!trace)
		return;
	cache = trace->head;
	for (uint32_t i = 0; i < trace->piece_count; i++) {
		const struct piece *piece = &trace->pieces[i];

		if (piece->block != block) {
			block = piece->block;
			pc = block < trace->blocks ? trace->starts[block] : pc;
		}
		if (at < (uint64_t)cache + piece->cache_bytes) {
			context->uc_mcontext.gregs[REG_RIP] = (greg_t)pc;
			if (piece->flags & PIECE_SPILLED)
				*gpr_in(context, 1) = thread->scratch;
			if (!(piece->flags & PIECE_SWAPPED))
				memory_copy(vector15_in(context), thread->vector15, 16);
			return;
		}
		cache += piece->cache_bytes;
		pc += piece->program_bytes;
	}
}

static void handler(int number, siginfo_t *info, void *data)
{
	struct thread *thread = self();
	ucontext_t *context = data;

	if (number == SIGSEGV && !context->uc_mcontext.gregs[REG_RIP] && !thread->is_leaving) {
		context->uc_mcontext.gregs[REG_RIP] = (greg_t)gate_miss;
		return;
	}
	if (number == SIGSEGV && guard_met(thread, info, context))
		return;
	if (thread->is_leaving) {
		struct engine_regs *regs = &thread->regs;

		for (unsigned int i = 0; i < 16; i++)
			*gpr_in(context, i) = regs->gpr[i];
		context->uc_mcontext.gregs[REG_RIP] = (greg_t)regs->rip;
		context->uc_mcontext.gregs[REG_EFL] = (greg_t)regs->rflags;
		memory_copy(vector15_in(context), thread->vector15, 16);
		return;
	}
	to_program(thread, context);
	/* It happens again, where the program sees it. */
	{
		struct kernel_action standard = { 0 };

		sys_call(SYS_rt_sigaction, number, (long)&standard, 0, SET_BYTES, 0, 0);
	}
}

static int own_set(int number)
{
	struct kernel_action action = { (uint64_t)handler,
					SA_SIGINFO | SA_ONSTACK | KERNEL_SA_RESTORER,
					(uint64_t)gate_sigreturn, ~UINT64_C(0) };

	return (int)sys_call(SYS_rt_sigaction, number, (long)&action, 0, SET_BYTES, 0, 0);
}

int signal_open(void)
{
	int err = own_set(SIGSEGV);

	return err ? err : own_set(SIGILL);
}

int signal_thread(struct thread *thread)
{
	stack_t stack = { .ss_sp = (void *)thread->signal_stack, .ss_size = THREAD_SIGNAL_BYTES };

	return (int)sys_call3(SYS_sigaltstack, (long)&stack, 0, 0);
}

static long plain(struct thread *thread)
{
	const uint64_t *gpr = thread->regs.gpr;

	return gate_call((long)gpr[0], (long)gpr[7], (long)gpr[6], (long)gpr[2], (long)gpr[10],
			 (long)gpr[8], (long)gpr[9]);
}

long signal_mask_call(struct thread *thread)
{
	uint64_t ours = UINT64_C(1) << (SIGSEGV - 1);
	long result = plain(thread);

	if (!result)
		sys_call(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&ours, 0, SET_BYTES, 0, 0);
	return result;
}

long signal_action_call(struct thread *thread)
{
	const uint64_t *gpr = thread->regs.gpr;

	if (gpr[7] != SIGSEGV)
		return plain(thread);
	if (gpr[2])
		memory_copy((void *)gpr[2], &action_segv, sizeof(action_segv));
	if (gpr[6])
		memory_copy(&action_segv, (const void *)gpr[6], sizeof(action_segv));
	return 0;
}

long signal_stack_call(struct thread *thread)
{
	(void)thread;
	return 0;
}

void signal_return_call(struct thread *thread)
{
	leave(thread, thread->regs.rip);
}

void signal_inherit(struct thread *child, const struct thread *thread)
{
	(void)child;
	(void)thread;
}

void leave(struct thread *thread, uint64_t pc)
{
	thread->regs.rip = pc;
	thread->is_leaving = 1;
	for (;;)
		__asm__ volatile("ud2");
}
