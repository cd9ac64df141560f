/* SPDX-License-Identifier: MIT */
#include "inside/engine/action.h"
#include "inside/engine/deliver.h"
#include "inside/engine/dispatch.h"
#include "inside/engine/engine_lock.h"
#include "inside/engine/gate.h"
#include "inside/engine/leave.h"
#include "inside/engine/onward.h"
#include "inside/engine/pending_signals.h"
#include "inside/engine/ranges.h"
#include "inside/engine/thread_words.h"
#include "inside/engine/trace.h"

#include <errno.h>

#define FLAG_TRAP 0x100u

void onward_regs(struct thread *thread, struct frame_context *context)
{
	for (unsigned int i = 0; i < 16; i++)
		*frame_gpr(context, i) = thread->regs.gpr[i];
	*frame_rip(context) = thread->regs.rip;
	*frame_flags(context) = thread->regs.rflags;
	frame_vector15_set(context->uc_mcontext.fpregs, thread->vector15);
}

/* The path has run. */
static void word_put(struct thread *thread, uint32_t id, uint32_t blocks)
{
	if ((uint32_t *)thread->pointer == thread->words_end)
		thread_words_turn(thread);
	*(uint32_t *)thread->pointer = id;
	thread->pointer += 4;
	thread->blocks += blocks;
}

void onward_path(struct thread *thread, const struct state *state)
{
	uint32_t blocks = state->block + (state->ran ? 1 : 0);
	uint32_t id;

	if (!blocks)
		return;
	lock_take(&dispatch_lock);
	id = trace_prefix(state->trace, blocks);
	lock_give(&dispatch_lock);
	if (id)
		word_put(thread, id, blocks);
}

void onward_state(struct thread *thread, const struct state *state, struct frame_context *context)
{
	state_to_program(state, thread, context);
	onward_path(thread, state);
}

/*
 * On in leave(), with what *context says of the program: there is no other stack for signals while
 * we are on ours.
 */
static void quit(struct thread *thread, struct frame_context *context)
{
	for (unsigned int i = 0; i < 16; i++)
		thread->regs.gpr[i] = *frame_gpr(context, i);
	thread->regs.rip = *frame_rip(context);
	thread->regs.rflags = *frame_flags(context);
	frame_vector15_get(context->uc_mcontext.fpregs, thread->vector15);
	*frame_rip(context) = (uint64_t)gate_quit;
	*frame_gpr(context, 4) = thread->stack;
	*frame_flags(context) = 2;
	*frame_mask(context) = ~action_own;
}

/*
 * The same, to dispatch_to(): its code is read there, where a signal may come meanwhile.
 */
static void resume(struct thread *thread, struct frame_context *context)
{
	static const uint8_t none[64];
	uint64_t mask = *frame_mask(context);

	quit(thread, context);
	frame_vector15_set(context->uc_mcontext.fpregs, none);
	*frame_rip(context) = (uint64_t)gate_resume;
	*frame_mask(context) = mask;
}

/*
 * On natively from where *context says: until a fault, or, step by step, to code that can be
 * translated.
 */
static void try_begin(struct thread *thread, struct frame_context *context)
{
	thread->is_trying = 1;
	thread->try_from = *frame_rip(context);
	thread->step_trap = *frame_flags(context) & FLAG_TRAP;
	*frame_flags(context) |= FLAG_TRAP;
}

static void try_end(struct thread *thread, struct frame_context *context)
{
	thread->is_trying = 0;
	*frame_flags(context) = (*frame_flags(context) & ~(uint64_t)FLAG_TRAP) | thread->step_trap;
	if (*frame_rip(context) != thread->try_from && thread->try_id)
		word_put(thread, thread->try_id, 1);
	thread->try_id = 0;
}

void onward_tried(struct thread *thread, const siginfo_t *info, struct frame_context *context)
{
	uint64_t rip = *frame_rip(context);
	int is_wanted = thread->step_trap != 0, has_code;

	lock_take(&dispatch_lock);
	has_code = ranges_left(rip) || ranges_are_unreadable();
	lock_give(&dispatch_lock);
	if (!has_code || rip == thread->try_from) {
		*frame_flags(context) |= FLAG_TRAP;
		return;
	}
	try_end(thread, context);
	if (is_wanted)
		onward_deliver(thread, info, context, 0, NULL);
	else
		onward_go(thread, context);
}

void onward_fault(struct thread *thread, const siginfo_t *info, struct frame_context *context)
{
	uint64_t rip = *frame_rip(context);

	/* its int3 was the program's after all, or it was on its way through the kernel's code */
	if (rip != thread->try_from) {
		thread->try_id = 0;
		thread_words_event(thread, TRAIL_GAP, rip, 0, TRAIL_GAP_NATIVE, 0);
	}
	try_end(thread, context);
	onward_deliver(thread, info, context, thread->try_left, NULL);
}

void onward_cache(struct thread *thread, struct frame_context *context)
{
	static const uint8_t none[64];
	uint64_t try_at = thread->try_at;
	struct trace *trace;
	int error;

	thread->try_at = 0;
	if (try_at && *frame_rip(context) == try_at) {
		try_begin(thread, context);
		return;
	}
	thread->try_left = thread->try_id = 0;
	lock_take(&dispatch_lock);
	trace = dispatch_find(thread, *frame_rip(context), NULL, NULL, &error);
	lock_give(&dispatch_lock);
	if (!trace && error == -EAGAIN) {
		resume(thread, context);
		return;
	}
	if (!trace && error != -EFAULT) {
		quit(thread, context);
		return;
	}
	if (!trace) { /* it faults there, or code of the kernel's is there */
		try_begin(thread, context);
		return;
	}
	if (trace->is_x87_shown)
		state_x87(context->uc_mcontext.fpregs);
	*frame_rip(context) = (uint64_t)trace->head;
	thread->traced = (uint64_t)trace->head;
	frame_vector15_get(context->uc_mcontext.fpregs, thread->vector15);
	frame_vector15_set(context->uc_mcontext.fpregs, none);
	frame_pointer_set(context, thread);
}

void onward_go(struct thread *thread, struct frame_context *context)
{
	siginfo_t info;

	while (pending_signals_take(thread, &info))
		if (deliver(thread, &info, context, 0, NULL))
			return;
	thread->is_deferred = 0;
	if (leave_is_wanted() && !leave_is_asked())
		leave_together();
	if (leave_is_asked()) {
		quit(thread, context);
		return;
	}
	*frame_mask(context) = action_mask(thread->blocked);
	onward_cache(thread, context);
}

void onward_deliver(struct thread *thread, const siginfo_t *info, struct frame_context *context,
		    uint32_t left, const uint64_t *back_to)
{
	if (!action_is_fault(info) && action_own & thread->blocked & ACTION_BIT(info->si_signo))
		pending_signals_add(thread, info);
	else if (deliver(thread, info, context, left, back_to))
		return;
	onward_go(thread, context);
}

void onward_defer(struct thread *thread, const siginfo_t *info, struct frame_context *context)
{
	pending_signals_add(thread, info);
	thread->is_deferred = 1;
	*frame_mask(context) = ~action_own;
}
