/* SPDX-License-Identifier: MIT */
/*
 * What a thread has stopped for, where that was SIGTRAP: a step, or a signal of the program's own.
 */
#include "record/trail/testing/step/step_own.h"

#define HIT_CODE 6 /* TRAP_PERF (asm-generic/siginfo.h, Linux 5.13) */
#define INT3 0xcc

int step_is_probed(const struct step *step, const struct step_thread *thread, const siginfo_t *info)
{
	return info->si_code == SI_USER && info->si_pid == step->pid &&
	       thread->insn.kind == TRAIL_STOP && thread->code[0] == INT3;
}

int step_own_trap(const struct step *step, const struct step_thread *thread)
{
	siginfo_t info = { 0 };

	if (ptrace(PTRACE_GETSIGINFO, thread->tid, 0, &info) || info.si_signo != SIGTRAP ||
	    info.si_code == SIGTRAP)
		return 0;
	if (step_is_probed(step, thread, &info))
		return 0;
	if (info.si_code == HIT_CODE)
		return thread->is_trap_blocked ? 0 : SIGTRAP;
	if (info.si_code == SI_KERNEL || info.si_code <= 0 || thread->insn.traits & INSN_TRAPS)
		return SIGTRAP;
	if (info.si_code == TRAP_TRACE && thread->has_own_flag)
		return SIGTRAP;
	return 0;
}

int step_is_before(const struct step_thread *thread, const siginfo_t *info, uint64_t rip)
{
	return info->si_code == HIT_CODE && rip == thread->at;
}
