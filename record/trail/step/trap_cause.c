/* SPDX-License-Identifier: MIT */
/*
 * What a thread has stopped for, where that was SIGTRAP: a step, a signal of the program's own, or
 * a watch's hit.
 *
 * The kernel raises a step's SIGTRAP at once, and a hit's when the thread returns to user mode. The
 * hit's finds the step's pending, and the kernel drops it. (Until Linux 6.10 the order may be
 * reversed.) So a thread that is stepped has the watched places in its debug registers a second
 * time, as a debugger's breakpoints. These show at each stop what the thread met. The step's
 * SIGTRAP is then changed into the hit's.
 */
#include "record/trail/step/step_own.h"

#include <stddef.h>
#include <string.h>

#define HIT_CODE 6 /* TRAP_PERF (asm-generic/siginfo.h, Linux 5.13) */
#define HIT_DATA_AT 24u
#define HIT_TYPE_AT 32u
#define HIT_TYPE 5u /* PERF_TYPE_BREAKPOINT */
#define INT3 0xcc
#define MET 0xfu /* of DR6: a bit for each register */

static int register_set(pid_t tid, unsigned int number, uint64_t value)
{
	return ptrace(PTRACE_POKEUSER, tid, offsetof(struct user, u_debugreg[number]), value) < 0;
}

/* What DR7 says of a register: it is on; written, or read too; so many bytes. */
static uint64_t control_of(unsigned int number, const struct step_place *place)
{
	static const uint8_t lengths[9] = { [1] = 0, [2] = 1, [4] = 3, [8] = 2 };
	uint64_t about = (place->on == WATCH_ON_ACCESS ? 3u : 1u) |
			 (uint64_t)lengths[place->bytes & 15] << 2;

	return UINT64_C(1) << 2 * number | about << (16 + 4 * number);
}

void step_watch(struct step *step, const struct step_watches *watches)
{
	if (watches)
		step->watches = *watches;
}

void step_watch_begin(const struct step *step, struct step_thread *thread)
{
	uint64_t control = 0;
	int err = 0;

	for (unsigned int i = 0; i < step->watches.count && !err; i++) {
		if (step->watches.places[i].on == WATCH_ON_EXECUTE)
			continue;
		err = register_set(thread->tid, i, step->watches.places[i].address);
		control |= control_of(i, &step->watches.places[i]);
	}
	thread->is_watched = control && !err && !register_set(thread->tid, 7, control);
}

void step_watch_end(struct step_thread *thread)
{
	if (thread->is_watched)
		register_set(thread->tid, 7, 0);
	thread->is_watched = 0;
}

/* The watch of a hit; NULL: no hit, or of a watch that is no longer armed the same. */
static const struct step_place *met(const struct step *step, const struct step_thread *thread)
{
	long met = ptrace(PTRACE_PEEKUSER, thread->tid, offsetof(struct user, u_debugreg[6]), 0);
	const struct step_place *place;
	unsigned int i;
	uint32_t gate;

	if (!(met & MET))
		return NULL;
	register_set(thread->tid, 6, 0);
	i = (unsigned int)__builtin_ctz((unsigned int)met & MET);
	if (i >= step->watches.count)
		return NULL;
	place = &step->watches.places[i];
	gate = __atomic_load_n(&step->watches.table->rows[place->number].gate, __ATOMIC_ACQUIRE);
	return gate == WATCH_GATE(0, WATCH_ON) ? place : NULL;
}

/*
 * The step's SIGTRAP becomes what the kernel's would have been. A thread that blocks it gets none:
 * that hit is missed.
 */
static int was_hit(const struct step *step, const struct step_thread *thread, siginfo_t *info)
{
	const uint32_t type = HIT_TYPE;
	const struct step_place *place = thread->is_watched ? met(step, thread) : NULL;
	uint64_t data;

	if (!place || thread->is_trap_blocked || step->is_trap_ignored)
		return 0;
	data = WATCH_COOKIE(step->watches.magic, place->number, 0);
	memset(info, 0, sizeof(*info));
	info->si_signo = SIGTRAP;
	info->si_code = HIT_CODE;
	info->si_addr = (void *)(uintptr_t)place->address;
	memcpy((char *)info + HIT_DATA_AT, &data, sizeof(data));
	memcpy((char *)info + HIT_TYPE_AT, &type, sizeof(type));
	return !ptrace(PTRACE_SETSIGINFO, thread->tid, 0, info);
}

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
	return was_hit(step, thread, &info) ? SIGTRAP : 0;
}

int step_is_before(const struct step_thread *thread, const siginfo_t *info, uint64_t rip)
{
	return info->si_code == HIT_CODE && rip == thread->at;
}
