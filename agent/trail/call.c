/* SPDX-License-Identifier: MIT */
#include "agent/trail/call.h"
#include "agent/trail/code.h"
#include "agent/trail/gate.h"
#include "agent/trail/leave.h"
#include "agent/trail/signal.h"
#include "agent/trail/sys.h"
#include "agent/trail/threads.h"

#include <asm/prctl.h>
#include <errno.h>

/* As the program asked for it. */
static long plain(const struct thread *thread)
{
	const uint64_t *gpr = thread->regs.gpr;

	return gate_call((long)gpr[0], (long)gpr[7], (long)gpr[6], (long)gpr[2], (long)gpr[10],
			 (long)gpr[8], (long)gpr[9]);
}

/* The program's own gs would be ours. */
static long prctl_arch(const struct thread *thread)
{
	switch (thread->regs.gpr[7]) {
	case ARCH_SET_GS:
		return -EPERM;
	case ARCH_GET_GS:
		*(uint64_t *)thread->regs.gpr[6] = 0;
		return 0;
	default:
		return plain(thread);
	}
}

static long call(struct thread *thread, uint64_t next)
{
	long result;

	switch (thread->regs.gpr[0]) {
	case SYS_clone:
	case SYS_clone3:
	case SYS_fork:
	case SYS_vfork:
		return thread_clone_call(thread, next);
	case SYS_exit:
	case SYS_exit_group:
		thread_exit_call(thread);
	case SYS_rt_sigaction:
		return signal_action_call(thread);
	case SYS_rt_sigprocmask:
		return signal_mask_call(thread);
	case SYS_sigaltstack:
		return signal_stack_call(thread);
	case SYS_arch_prctl:
		return prctl_arch(thread);
	case SYS_rseq: /* its critical sections are told by addresses in which we never are */
		return -ENOSYS;
	case SYS_mmap:
	case SYS_munmap:
	case SYS_mprotect:
	case SYS_mremap:
	case SYS_pkey_mprotect:
	case SYS_shmat:
	case SYS_shmdt:
		return code_call(thread, plain);
	default:
		thread->call_next = next;
		thread->is_plain = 1;
		result = plain(thread);
		thread->is_plain = 0;
		return result;
	}
}

void call_make(struct thread *thread, uint64_t next)
{
	struct engine_regs *regs = &thread->regs;
	long result;

	if (regs->gpr[0] == SYS_rt_sigreturn) {
		signal_return_call(thread);
		return;
	}
	regs->rip = next;
	result = call(thread, next);
	regs->gpr[0] = (uint64_t)result;
	regs->gpr[1] = next;
	regs->gpr[11] = regs->rflags;
}
