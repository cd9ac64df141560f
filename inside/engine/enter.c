/* SPDX-License-Identifier: MIT */
/* Where translated code comes to when it does not know on: gate.S calls engine_enter(). */
#include "inside/engine/channel.h"
#include "inside/engine/dispatch.h"
#include "inside/engine/engine_lock.h"
#include "inside/engine/engine_syscall.h"
#include "inside/engine/gate.h"
#include "inside/engine/leave.h"
#include "inside/engine/signal.h"
#include "inside/engine/ranges.h"
#include "inside/engine/state.h"
#include "inside/engine/thread_words.h"

#include <errno.h>

#define ADDRESS_BITS 47 /* of user space, if a program asks for no more */

/* Where an indirect branch leads, by what its exit says of it. */
static uint64_t indirect_target(const struct thread *thread, const struct exit *exit)
{
	switch (exit->kind) {
	case EXIT_RETURN: /* still there, below what it dropped */
		return *(const uint64_t *)(thread->regs.gpr[4] - exit->pops - 8);
	case EXIT_REGISTER:
		return thread->regs.gpr[exit->reg];
	default:
		return thread->target;
	}
}

/*
 * A branch to where no user's code can be. The processor faults at the branch if the address is not
 * canonical, else at the target. The thread runs the branch itself, so the fault is as natively.
 */
static void branch_try(struct thread *thread, const struct exit *exit)
{
	struct state state;

	state_left(&state, thread, exit);
	thread->regs.gpr[4] += exit->kind == EXIT_RETURN ? -(exit->pops + 8ul) : exit->pops;
	thread->regs.rip = thread->try_at = state.pc;
	thread->try_left = state.left;
	state_unrecord(thread);
	signal_onward_path(thread, &state);
	gate_signal();
}

/* An instruction with a breakpoint of another tool, as if it had not run. */
static void native_try(struct thread *thread, const struct exit *exit)
{
	thread->try_id = ring_last(thread);
	thread->try_left = 0;
	thread->regs.rip = thread->try_at = exit->target;
	state_unrecord(thread);
	thread_words_event(thread, TRAIL_GAP, exit->target, 0, TRAIL_GAP_BREAKPOINT, 0);
	gate_signal();
}

static void indirect(struct thread *thread, const struct exit *exit)
{
	uint64_t target = indirect_target(thread, exit);
	int has_code = 1;

	if (target >> ADDRESS_BITS) {
		lock_take(&dispatch_lock);
		has_code = ranges_left(target) || ranges_are_unreadable();
		lock_give(&dispatch_lock);
	}
	if (!has_code)
		branch_try(thread, exit);
	dispatch_to(thread, target, NULL);
}

void engine_enter(struct thread *thread, enum gate why)
{
	struct exit *exit = trace_exit_of(ring_last(thread));
	uint64_t target;

	switch (why) {
	case GATE_EXIT:
		dispatch_to(thread, exit->target, exit);
		return;
	case GATE_MISS:
		thread->regs.gpr[1] = thread->scratch;
		indirect(thread, exit);
		return;
	case GATE_CHANGED:
		target = thread->regs.gpr[1];
		thread->regs.gpr[1] = thread->scratch;
		dispatch_to(thread, target, NULL);
		return;
	case GATE_SYSCALL:
		trace_out(thread);
		syscall_make(thread, exit->target);
		dispatch_to(thread, thread->regs.rip, NULL);
		return;
	case GATE_REFUSED:
		if (exit->kind == EXIT_NATIVE)
			native_try(thread, exit);
		channel.head->error = -ENOEXEC;
		channel_native(ENGINE_NATIVE_CODE);
		leave(thread, exit->target);
	}
}
