/* SPDX-License-Identifier: MIT */
/*
 * Hides stepping from the program.
 *
 * The trap flag: code that pushes the flags would see it. And at an instruction that sets the flags
 * (is_setting_trap_flag()) the kernel takes the tracer's flag for the program's, until it next
 * continues without a step: then signal frames have it, and a detached thread keeps it. So this
 * file tracks whether the program has set it itself.
 *
 * SIGTRAP: the kernel forces a step's signal on the thread (force_sig_info_to_task()). If the
 * program blocks it, that unblocks it and resets the program's handler. So SIGTRAP is never blocked
 * while a thread is stepped. It is blocked during system calls if the program blocks it: there the
 * tracer stops by PTRACE_SYSCALL, which forces nothing. A SIGTRAP that comes meanwhile is kept
 * pending (blocked_traps.c).
 *
 * If the program ignores SIGTRAP, the first step resets that in the kernel, too: this file drops
 * what is sent, and sigaction() reports SIG_IGN.
 */
#include "record/trail/testing/step/step_own.h"
#include "target/process/target.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/uio.h>

#define MASK_BYTES 8
#define MASK_TRAP (UINT64_C(1) << (SIGTRAP - 1))
/* In the second byte of the flags. */
#define FLAG_BYTE 1
#define FLAG_BIT 1u

/* The flags at that address lose the trap flag. */
static void clear_flag_at(pid_t tid, uint64_t at)
{
	uint8_t byte;
	struct iovec here = { &byte, 1 };
	struct iovec there = { (void *)(uintptr_t)(at + FLAG_BYTE), 1 };

	if (process_vm_readv(tid, &here, 1, &there, 1, 0) != 1)
		return;
	byte &= (uint8_t)~FLAG_BIT;
	(void)!process_vm_writev(tid, &here, 1, &there, 1, 0);
}

void step_hide_flag(struct step_thread *thread, struct user_regs_struct *regs)
{
	if (!thread->has_own_flag && thread->insn.kind == TRAIL_SYSCALL && regs->r11 & TRAP_FLAG &&
	    (long long)regs->orig_rax >= 0) {
		regs->r11 &= ~(unsigned long long)TRAP_FLAG;
		ptrace(PTRACE_SETREGS, thread->tid, 0, regs);
	}
	if (!thread->has_own_flag && thread->insn.traits & INSN_PUSHES_FLAGS)
		clear_flag_at(thread->tid, regs->rsp);
	if (thread->insn.traits & INSN_POPS_FLAGS)
		thread->has_own_flag = !!(regs->eflags & TRAP_FLAG);
}

void step_clear_flag(struct step_thread *thread, struct user_regs_struct *regs)
{
	if (thread->has_own_flag || !(regs->eflags & TRAP_FLAG))
		return;
	regs->eflags &= ~(unsigned long long)TRAP_FLAG;
	ptrace(PTRACE_SETREGS, thread->tid, 0, regs);
}

void step_clear_frame(struct step_thread *thread, const struct user_regs_struct *regs)
{
	if (!thread->has_own_flag)
		clear_flag_at(thread->tid, regs->rdx + CONTEXT_EFLAGS);
}

int step_is_caught(const struct step_thread *thread, int signal)
{
	return target_status_mask(thread->tid, "SigCgt") >> (signal - 1) & 1;
}

void step_note_ignored(struct step *step, pid_t tid)
{
	step->is_trap_ignored = target_status_mask(tid, "SigIgn") >> (SIGTRAP - 1) & 1;
}

void step_set_action(struct step *step, const struct step_thread *thread,
		     const struct user_regs_struct *regs)
{
	uint64_t ignored = (uint64_t)(uintptr_t)SIG_IGN;
	struct iovec here = { &ignored, sizeof(ignored) };
	struct iovec there = { (void *)(uintptr_t)regs->rdx, sizeof(ignored) };

	if (regs->rdi != SIGTRAP || regs->rax)
		return;
	if (step->is_trap_ignored && regs->rdx)
		(void)!process_vm_writev(thread->tid, &here, 1, &there, 1, 0);
	if (regs->rsi)
		step_note_ignored(step, thread->tid);
}

void step_hide_mask(struct step_thread *thread)
{
	uint64_t mask;

	thread->is_mask_shown = 0;
	if (ptrace(PTRACE_GETSIGMASK, thread->tid, MASK_BYTES, &mask))
		return;
	thread->is_trap_blocked = !!(mask & MASK_TRAP);
	/*
	 * One that waits with another mask, in sigsuspend() say, has this one put back by a handler
	 * only, and what we set now would be in force at once. There its handler's first
	 * instruction is early enough.
	 */
	if (!thread->is_trap_blocked || target_status_mask(thread->tid, "SigBlk") != mask)
		return;
	mask &= ~MASK_TRAP;
	ptrace(PTRACE_SETSIGMASK, thread->tid, MASK_BYTES, &mask);
}

void step_show_mask(struct step_thread *thread)
{
	uint64_t mask;

	if (!thread->is_trap_blocked || thread->is_mask_shown)
		return;
	thread->is_mask_shown = 1;
	if (ptrace(PTRACE_GETSIGMASK, thread->tid, MASK_BYTES, &mask) || mask & MASK_TRAP)
		return;
	mask |= MASK_TRAP;
	ptrace(PTRACE_SETSIGMASK, thread->tid, MASK_BYTES, &mask);
}
