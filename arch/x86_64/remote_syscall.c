/* SPDX-License-Identifier: MIT */
#include "arch/loader.h"
#include "arch/remote_syscall.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

/*
 * What a system call that a stop interrupted returns inside the kernel: its include/linux/errno.h.
 */
#define ERESTARTSYS 512
#define ERESTARTNOINTR 513
#define ERESTARTNOHAND 514
#define ERESTART_RESTARTBLOCK 516

#define SYSCALL_BYTES 2

extern const char remote_code[], remote_code_restore[], remote_code_data[], remote_code_end[];

/* As remote_syscall_code.S has it. */
struct restored {
	uint64_t mask, flags, rsp;
	uint64_t rax, rbx, rcx, rdx, rsi, rdi, rbp;
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t rip;
};

void remote_regs_stack_set(struct halt_regs *regs, uint64_t stack)
{
	regs->regs.rsp = stack;
}

long remote_regs_call_number(const struct halt_regs *regs)
{
	return (long)regs->regs.orig_rax;
}

int remote_is_signal_frame(const uint64_t *words, size_t count, uint64_t *pc, uint64_t *stack)
{
	/*
	 * struct rt_sigframe of arch/x86/include/asm/sigframe.h: where to return to, then the
	 * ucontext
	 */
	enum { UCONTEXT = 1, MCONTEXT = UCONTEXT + 5, RSP = MCONTEXT + 15, RIP, FLAGS, SEGMENTS };

	if (count <= SEGMENTS || (words[SEGMENTS] & 0xffff) != 0x33 ||
	    words[SEGMENTS] >> 48 != 0x2b || !(words[FLAGS] & 2))
		return 0;
	*pc = words[RIP];
	*stack = words[RSP];
	return 1;
}

long remote_regs_result(const struct halt_regs *regs)
{
	return (long)regs->regs.rax;
}

size_t remote_code_bytes(void)
{
	return (size_t)(remote_code_end - remote_code);
}

const void *remote_code_head(void)
{
	return remote_code;
}

size_t remote_restore_offset(void)
{
	return (size_t)(remote_code_restore - remote_code);
}

/* arch/x86/kernel/signal.c, arch_do_signal_or_restart(), where there is no signal to deliver. */
static void syscall_restart(struct user_regs_struct *regs)
{
	if ((long)regs->orig_rax == -1)
		return;
	switch (-(long)regs->rax) {
	case ERESTARTNOHAND:
	case ERESTARTSYS:
	case ERESTARTNOINTR:
		regs->rax = regs->orig_rax;
		regs->rip -= SYSCALL_BYTES;
		break;
	case ERESTART_RESTARTBLOCK:
		regs->rax = SYS_restart_syscall;
		regs->rip -= SYSCALL_BYTES;
		break;
	default:
		break;
	}
}

int remote_regs_in_call(const struct halt_regs *regs)
{
	struct user_regs_struct restarted = regs->regs;

	syscall_restart(&restarted);
	return restarted.rip != regs->regs.rip;
}

void remote_regs_anew(struct halt_regs *regs)
{
	syscall_restart(&regs->regs);
}

void remote_code_fill(void *code, const struct halt_regs *saved, uint64_t mask)
{
	struct user_regs_struct regs = saved->regs;
	struct restored restored;

	syscall_restart(&regs);
	restored = (struct restored){
		.mask = mask,
		.flags = regs.eflags,
		.rsp = regs.rsp,
		.rax = regs.rax,
		.rbx = regs.rbx,
		.rcx = regs.rcx,
		.rdx = regs.rdx,
		.rsi = regs.rsi,
		.rdi = regs.rdi,
		.rbp = regs.rbp,
		.r8 = regs.r8,
		.r9 = regs.r9,
		.r10 = regs.r10,
		.r11 = regs.r11,
		.r12 = regs.r12,
		.r13 = regs.r13,
		.r14 = regs.r14,
		.r15 = regs.r15,
		.rip = regs.rip,
	};
	memcpy(code, remote_code, remote_code_bytes());
	memcpy((char *)code + (remote_code_data - remote_code), &restored, sizeof(restored));
}

void remote_regs_call(struct halt_regs *regs, const struct halt_regs *saved, uint64_t at,
		      long number, const uint64_t arguments[6])
{
	*regs = *saved;
	/* No system call is being left, so nothing is restarted on the way out. */
	regs->regs.orig_rax = (unsigned long long)-1;
	regs->regs.rip = at;
	regs->regs.rax = (unsigned long long)number;
	regs->regs.rdi = arguments[0];
	regs->regs.rsi = arguments[1];
	regs->regs.rdx = arguments[2];
	regs->regs.r10 = arguments[3];
	regs->regs.r8 = arguments[4];
	regs->regs.r9 = arguments[5];
	/* Neither a step nor an alignment check of the program's may hit our code. */
	regs->regs.eflags &= ~(0x100ull | 0x400ull | 0x40000ull);
}

void remote_regs_clone(struct halt_regs *regs, const struct halt_regs *saved, uint64_t at,
		       uint64_t flags, uint64_t stack, uint64_t tid_at, uint64_t thread_pointer,
		       uint64_t data)
{
	const uint64_t arguments[6] = { flags, stack, tid_at, tid_at, thread_pointer, 0 };

	remote_regs_call(regs, saved, at, SYS_clone, arguments);
	regs->regs.rbx = data;
}
