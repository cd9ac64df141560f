/* SPDX-License-Identifier: MIT */
#include "arch/halt.h"

#include "base/syscall.h"

#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

/*
 * arch/x86/include/uapi/asm/sigcontext.h, struct sigcontext_64: ..., rsp, rip, eflags, then the
 * four segment selectors in one word. A 64-bit program has __USER_CS, 0, 0, __USER_DS there.
 */
#define FRAME_SELECTORS UINT64_C(0x002b000000000033)

/* The kernel restarts a call with this result, unless a handler runs: its include/linux/errno.h. */
#define RESTART_NO_HANDLER 514
#define RESTART_RESUMED 516 /* what has used up some of its time: by restart_syscall(2) */

int halt_regs_get(int tid, struct halt_regs *regs)
{
	struct iovec iov = { &regs->regs, sizeof regs->regs };
	long error = syscall_raw(SYS_ptrace, PTRACE_GETREGSET, tid, NT_PRSTATUS, (long)&iov);

	if (error)
		return (int)error;
	/* a 32-bit thread has a smaller set */
	return iov.iov_len == sizeof regs->regs ? 0 : -ENOTSUP;
}

int halt_regs_set(int tid, const struct halt_regs *regs)
{
	struct iovec iov = { (void *)&regs->regs, sizeof regs->regs };

	return (int)syscall_raw(SYS_ptrace, PTRACE_SETREGSET, tid, NT_PRSTATUS, (long)&iov);
}

uintptr_t halt_pc(const struct halt_regs *regs)
{
	return regs->regs.rip;
}

uintptr_t halt_stack(const struct halt_regs *regs)
{
	return regs->regs.rsp;
}

uintptr_t halt_thread_pointer(const struct halt_regs *regs)
{
	return regs->regs.fs_base;
}

int halt_is_resuming(const struct halt_regs *regs)
{
	return (long)regs->regs.rax == -RESTART_RESUMED && (long)regs->regs.orig_rax >= 0;
}

/*
 * Whether this is one of those that signal(7) names as never restarted, and that have done nothing
 * when they say EINTR.
 */
static int restart_is_wanted(unsigned long number)
{
	switch (number) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case 441: /* epoll_pwait2 */
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_rt_sigtimedwait:
	case SYS_io_getevents:
	case 333:	 /* io_pgetevents */
	case 426:	 /* io_uring_enter */
	case SYS_accept: /* these where a timeout was set on the socket */
	case SYS_accept4:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_sendto:
	case SYS_sendmsg:
		return 1;
	default:
		return 0;
	}
}

int halt_restart(struct halt_regs *regs, int is_full)
{
	int is_wanted = (long)regs->regs.rax == -EINTR && restart_is_wanted(regs->regs.orig_rax);

	if (!is_wanted && !(is_full && halt_is_resuming(regs)))
		return 0;
	regs->regs.rax = (unsigned long long)-RESTART_NO_HANDLER;
	return 1;
}

int halt_is_frame(const uint64_t *words, size_t at)
{
	return words[at + 2] == FRAME_SELECTORS;
}

/* clone(2) with a stack; the child finds `fn` and `arg` on it. */
__asm__(".text\n"
	".type spawn, @function\n"
	"spawn:\n\t"
	".cfi_startproc\n\t"
	"movl $56, %eax\n\t"
	"xorl %edx, %edx\n\t"
	"xorl %r10d, %r10d\n\t"
	"xorl %r8d, %r8d\n\t"
	"syscall\n\t"
	"testq %rax, %rax\n\t"
	"jz 1f\n\t"
	"ret\n"
	"1:\t.cfi_undefined rip\n\t"
	"xorl %ebp, %ebp\n\t"
	"popq %rax\n\t"
	"popq %rdi\n\t"
	"call *%rax\n\t"
	"movl $60, %eax\n\t"
	"xorl %edi, %edi\n\t"
	"syscall\n\t"
	"ud2\n\t"
	".cfi_endproc\n\t"
	".size spawn, . - spawn\n");
long spawn(unsigned long flags, void *stack) __attribute__((visibility("hidden")));

long halt_spawn(void *stack_end, void (*fn)(void *), void *arg)
{
	uint64_t *stack = (uint64_t *)((uintptr_t)stack_end & ~(uintptr_t)15) - 2;

	stack[0] = (uintptr_t)fn;
	stack[1] = (uintptr_t)arg;
	/* no signal to its parent at its end, and no tracer of its parent's follows it */
	return spawn(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_UNTRACED, stack);
}

void halt_serialize(void)
{
	unsigned int a = 0, b, c = 0, d;

	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d) : : "memory");
}
