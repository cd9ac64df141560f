/* SPDX-License-Identifier: MIT */
#include "inside/engine/action.h"
#include "inside/engine/cache.h"
#include "inside/engine/called.h"
#include "inside/engine/channel.h"
#include "inside/engine/child_process.h"
#include "inside/engine/deliver.h"
#include "inside/engine/dispatch.h"
#include "inside/engine/engine_lock.h"
#include "inside/engine/engine_threads.h"
#include "inside/engine/gate.h"
#include "inside/engine/glue.h"
#include "inside/engine/leave.h"
#include "inside/engine/map.h"
#include "inside/engine/onward.h"
#include "inside/engine/pages.h"
#include "inside/engine/pending_signals.h"
#include "inside/engine/places.h"
#include "inside/engine/profile.h"
#include "inside/engine/rseq.h"
#include "inside/engine/signal.h"
#include "inside/engine/signal_call.h"
#include "inside/engine/signal_frame.h"
#include "inside/engine/state.h"
#include "inside/engine/sys.h"
#include "inside/engine/thread_words.h"

#include <asm/prctl.h>
#include <errno.h>

#define FLAG_TRAP 0x100u
#define GLUE_MAX 64u /* engine instructions in a row; more is a loop */

/* NULL: it has left, and gs is the program's. */
static struct thread *self(void)
{
	uint64_t base;

	if (!leave_is_asked())
		__asm__("mov %%gs:0, %0" : "=r"(base));
	else if (sys_call3(SYS_arch_prctl, ARCH_GET_GS, (long)&base, 0) || !places_begin(base))
		return NULL;
	return (struct thread *)base;
}

/* ---- step by step ---- */

static void step(struct thread *thread, struct frame_context *context)
{
	if (!thread->is_stepping)
		thread->step_trap = *frame_flags(context) & FLAG_TRAP;
	thread->is_stepping = 1;
	*frame_flags(context) |= FLAG_TRAP;
}

/* The engine has single-stepped: at one of the program's instructions, deliver what is pending. */
static void stepped(struct thread *thread, struct frame_context *context)
{
	struct state state;
	siginfo_t info;

	state_look(&state, *frame_rip(context));
	if (state.kind == STATE_BETWEEN || state.kind == STATE_AMID)
		return;
	thread->is_stepping = 0;
	*frame_flags(context) = (*frame_flags(context) & ~(uint64_t)FLAG_TRAP) | thread->step_trap;
	if (state.kind == STATE_ENGINE)
		return; /* until it is done */
	onward_state(thread, &state, context);
	if (!pending_signals_take(thread, &info))
		onward_go(thread, context);
	else
		onward_deliver(thread, &info, context, state.ran ? state.left : 0, NULL);
}

/*
 * The program has set the trap flag. 1: what trapped is not one of its instructions. The
 * instruction that has just run is where the last trap was, or right before this one.
 */
static int is_trap_beside(struct thread *thread, const struct frame_context *context)
{
	uint64_t rip = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
	uint64_t ran = thread->traced ? thread->traced : rip - 1;
	struct state state;

	thread->traced = rip;
	state_look(&state, rip);
	if (state.kind == STATE_IN || state.kind == STATE_ENGINE) /* what leads here is beside */
		return 1;
	state_look(&state, ran);
	return state.kind == STATE_BETWEEN || state.kind == STATE_ENGINE ||
	       state.flags & PIECE_CHECKS;
}

/* ---- the engine's own ---- */

/* A word found no room: movl $id, (reg), and reg is what xmm15 is. */
static int guard_met(struct thread *thread, const siginfo_t *info, struct frame_context *context)
{
	const uint8_t *at = (const uint8_t *)*frame_rip(context);
	unsigned int reg = 0;

	if (!thread_words_is_guard(thread, (uint64_t)info->si_addr) || !cache_has((uint64_t)at))
		return 0;
	if (*at == 0x41) {
		reg = 8;
		at++;
	}
	reg |= at[1] & 7;
	thread->pointer = (uint64_t)info->si_addr;
	thread->blocks = frame_xmm15(context)[1];
	profile_look(thread);
	thread_words_turn(thread);
	*frame_gpr(context, reg) = thread->pointer;
	frame_pointer_set(context, thread);
	return 1;
}

/* The map's entry for where an indirect branch leads was never touched. */
static int map_met(const siginfo_t *info, struct frame_context *context)
{
	uint64_t *rip = frame_rip(context), entry;

	if (!cache_has(*rip) ||
	    !map_is_jump((const uint8_t *)*rip, *frame_gpr(context, 1), &entry) ||
	    entry != (uint64_t)info->si_addr)
		return 0;
	*rip = (uint64_t)gate_miss;
	return 1;
}

/* The code that a trace compares before it runs can't be read any more. */
static int check_met(struct frame_context *context)
{
	struct state state;

	if (!cache_has(*frame_rip(context)))
		return 0;
	state_look(&state, *frame_rip(context));
	if (state.kind != STATE_IN || !(state.flags & PIECE_CHECKS))
		return 0;
	*frame_gpr(context, 1) = state.pc;
	*frame_rip(context) = (uint64_t)gate_changed;
	return 1;
}

/* A write to guarded code: it may continue, and the code's translations are dropped. */
static int write_met(struct thread *thread, const siginfo_t *info, struct frame_context *context)
{
	struct state state;
	int was_ours;

	if (info->si_code != SEGV_ACCERR || !(context->uc_mcontext.gregs[REG_ERR] & 2))
		return 0;
	state_look(&state, *frame_rip(context));
	lock_take(&dispatch_lock);
	was_ours = pages_written((uint64_t)info->si_addr, state.pc);
	lock_give(&dispatch_lock);
	if (!was_ours || state.kind == STATE_ENGINE || !state.trace->is_dead)
		return was_ours;
	if (state.kind == STATE_BETWEEN)
		return 1; /* where it goes next is not in this trace */
	onward_state(thread, &state, context);
	thread_words_event(thread, TRAIL_GAP, state.pc, state.ran ? state.left : 0,
			   TRAIL_GAP_SUSPENDED, 0);
	onward_cache(thread, context);
	return 1;
}

static void reported(struct thread *thread, struct frame_context *context);

static int is_copying(uint64_t rip)
{
	return rip >= (uint64_t)gate_copy && rip < (uint64_t)gate_copy_done;
}

static int is_reading(uint64_t rip)
{
	return rip >= (uint64_t)gate_read && rip < (uint64_t)gate_read_done;
}

/* In the engine, and the program is where thread->regs say: nothing of the engine's is held. */
static int is_at_regs(uint64_t rip)
{
	return is_reading(rip) || (rip >= (uint64_t)gate_leave && rip < (uint64_t)gate_leave_end);
}

/* Behind an instruction with the trap flag; behind one with a uprobe the kernel sends it. */
static int is_step(const siginfo_t *info)
{
	return info->si_signo == SIGTRAP &&
	       (info->si_code == TRAP_TRACE ||
		(info->si_code == SI_USER && info->si_pid == sys_call3(SYS_getpid, 0, 0, 0)));
}

static int own(struct thread *thread, const siginfo_t *info, struct frame_context *context)
{
	uint64_t rip = *frame_rip(context);

	if (thread->is_trying && is_step(info)) {
		onward_tried(thread, info, context);
		return 1;
	}
	if (info->si_signo == SIGTRAP && info->si_code == TRAP_TRACE) {
		if (thread->is_stepping)
			stepped(thread, context);
		else if (thread->is_native || !is_trap_beside(thread, context))
			return 0;
		return 1;
	}
	if ((info->si_signo != SIGSEGV && info->si_signo != SIGBUS) || info->si_code <= 0)
		return 0;
	if (!thread->is_native && !thread->is_trying) {
		if (!rip) {
			*frame_rip(context) = (uint64_t)gate_miss;
			return 1;
		}
		if (info->si_signo == SIGSEGV && map_met(info, context))
			return 1;
		if (check_met(context))
			return 1;
		if (guard_met(thread, info, context)) {
			if (leave_is_wanted())
				reported(thread, context);
			return 1;
		}
	}
	if (info->si_signo == SIGSEGV && write_met(thread, info, context))
		return 1;
	if (!is_copying(rip) && !is_reading(rip))
		return 0;
	*frame_rip(context) = (uint64_t)(is_reading(rip) ? gate_read_failed : gate_copy_failed);
	return 1;
}

/* ---- what comes ---- */

/* leave(): the frame is made what the thread has, and native. */
static void left(struct thread *thread, struct frame_context *context)
{
	stack_t *stack = &context->uc_stack;
	int is_process = (int)thread->is_process, is_last;

	state_x87(context->uc_mcontext.fpregs);
	/*
	 * Count only now: the last thread gives our handlers back. From here on no thread asks it
	 * to leave, and earlier requests have arrived.
	 */
	thread_leaves(thread);
	onward_regs(thread, context);
	*frame_mask(context) = thread->blocked;
	thread->is_leaving = 0;
	thread->is_native = 1;
	action_mask_set(~UINT64_C(0));
	is_last = thread_left(thread);
	if (is_last && !is_process)
		leave_untold(thread, 1);
	pending_signals_restore(thread, is_last);
	if (thread->is_process == PROCESS_CLEARED)
		action_clear();
	else if (is_last)
		action_restore(~UINT64_C(0));
	*stack = (stack_t){ .ss_sp = (void *)thread->stack_asked.at,
			    .ss_flags = (int)thread->stack_asked.flags,
			    .ss_size = thread->stack_asked.bytes };
	if (!stack->ss_size)
		stack->ss_flags = SS_DISABLE;
	sys_call3(SYS_sigaltstack, (long)stack, 0, 0);
	rseq_restore(thread);
	sys_call3(SYS_arch_prctl, ARCH_SET_GS, 0, 0);
	if (is_process) {
		process_shared_memory(thread);
		return;
	}
	leave_wait(is_last);
	process_left(thread->tid);
}

/*
 * At a system call of the program's, before the kernel has taken it or when it gives it back to be
 * made again.
 */
static void at_call(struct thread *thread, const siginfo_t *info, struct frame_context *context)
{
	struct engine_regs *regs = &thread->regs;

	regs->rip = thread->call_next - 2;
	if (*frame_rip(context) == (uint64_t)gate_call_at) {
		regs->gpr[0] = *frame_gpr(context, 0); /* restart_syscall(2), if it says so */
		if (*frame_gpr(context, 1) == (uint64_t)gate_call_done) { /* it was there */
			regs->gpr[1] = thread->call_next;
			regs->gpr[11] = regs->rflags;
		}
	}
	called_broken_off(thread);
	thread->call_next = 0;
	onward_regs(thread, context);
	onward_deliver(thread, info, context, 1, NULL);
}

/* Behind one. */
static void after_call(struct thread *thread, siginfo_t *info, struct frame_context *context)
{
	struct engine_regs *regs = &thread->regs;
	uint64_t back_to = thread->blocked, mask;
	long result = (long)*frame_gpr(context, 0);
	int has_mask = result == -EINTR && signal_call_mask(thread, &mask);

	called_broken_off(thread);
	if (regs->gpr[0] == SYS_rt_sigtimedwait)
		result = signal_wait_took(thread, result);
	if (result == GATE_CALL_LATER)
		result = -EINTR;
	called_tell(thread, thread->call_next, result);
	regs->rip = regs->gpr[1] = thread->call_next;
	regs->gpr[0] = (uint64_t)result;
	regs->gpr[11] = regs->rflags;
	if (info->si_signo == SIGSYS && info->si_code > 0) /* a filter's: as if we had not been */
		info->si_call_addr = (void *)thread->call_next;
	thread->call_next = 0;
	onward_regs(thread, context);
	if (has_mask)
		thread->blocked = mask;
	onward_deliver(thread, info, context, 0, &back_to);
}

static void in_engine(struct thread *thread, siginfo_t *info, struct frame_context *context)
{
	uint64_t rip = *frame_rip(context), next;
	siginfo_t held;

	if (action_is_hit(info))
		action_hit_is_ours(info);
	if (rip == (uint64_t)gate_signal && info->si_signo == SIGILL && info->si_code > 0) {
		onward_regs(thread, context);
		/* a call that was put off is made no more, and leave_ask() may signal us again */
		next = __atomic_exchange_n(&thread->call_next, 0, __ATOMIC_SEQ_CST);
		if (pending_signals_take(thread, &held))
			onward_deliver(thread, &held, context,
				       thread->try_at ? thread->try_left
						      : thread->regs.rip == next - 2,
				       NULL);
		else
			onward_go(thread, context);
	} else if (rip >= (uint64_t)gate_call_check && rip <= (uint64_t)gate_call_at) {
		at_call(thread, info, context);
	} else if (rip == (uint64_t)gate_call_done) {
		after_call(thread, info, context);
	} else if (is_at_regs(rip) && !action_is_fault(info)) {
		onward_regs(thread, context);
		onward_deliver(thread, info, context, 0, NULL);
	} else if (action_is_fault(info) && info->si_signo != SIGTRAP) {
		/*
		 * A fault of the engine, or unmapped memory: the program ends where it entered the
		 * engine.
		 */
		onward_regs(thread, context);
		deliver_death(thread, info, context);
	} else {
		if (rip >= (uint64_t)gate_mask_check && rip <= (uint64_t)gate_mask_at)
			*frame_rip(context) = (uint64_t)gate_mask_done;
		onward_defer(thread, info, context);
	}
}

#define TRAP_OVERFLOW 4 /* int $4: SIGSEGV, at the next instruction as with SIGTRAP */

static int is_fault_at(const siginfo_t *info, const struct frame_context *context)
{
	return action_is_fault(info) && info->si_signo != SIGTRAP &&
	       context->uc_mcontext.gregs[REG_TRAPNO] != TRAP_OVERFLOW;
}

/* In translated code: on to where the program is at an instruction, if it is not there. */
static void in_cache(struct thread *thread, siginfo_t *info, struct frame_context *context,
		     struct state *state)
{
	int is_fault = is_fault_at(info, context);

	for (unsigned int i = 0; i < GLUE_MAX && state->kind == STATE_BETWEEN && !is_fault; i++) {
		if (!glue_step(thread, context))
			break;
		state_look(state, *frame_rip(context));
	}
	if (state->kind == STATE_AT || state->kind == STATE_IN ||
	    (state->kind == STATE_AMID && is_fault)) {
		onward_state(thread, state, context);
		onward_deliver(thread, info, context, state->ran ? state->left : 0, NULL);
		return;
	}
	if (is_fault) { /* engine instructions raise none */
		deliver_death(thread, info, context);
		return;
	}
	onward_defer(thread, info, context);
	if (state->kind != STATE_ENGINE)
		step(thread, context);
}

/*
 * A native thread, while others are not: the program's handler in our place, on the frame that the
 * kernel made.
 */
static void in_native(const siginfo_t *info, struct frame_context *context)
{
	int number = info->si_signo;
	struct action action = action_take(number);
	uint64_t mask = *frame_mask(context) | action.mask;

	if (action.handler == (uint64_t)SIG_IGN && !action_is_fault(info))
		return;
	if (action.handler <= (uint64_t)SIG_IGN) {
		deliver_death(NULL, info, context);
		return;
	}
	if (!(action.flags & SA_NODEFER))
		mask |= ACTION_BIT(number);
	action_mask_set(mask);
	channel.head->places.is_lasting = 1; /* it returns through the engine */
	gate_chain(context, number, info, action.handler);
}

/* Asked to leave: at once where the program is at an instruction, else where it will be next. */
static void reported(struct thread *thread, struct frame_context *context)
{
	uint64_t rip = *frame_rip(context);
	struct state state;

	if (thread->is_native || thread->is_trying)
		return;
	state_look(&state, rip);
	for (unsigned int i = 0; i < GLUE_MAX && state.kind == STATE_BETWEEN; i++) {
		if (!glue_step(thread, context))
			break;
		state_look(&state, *frame_rip(context));
	}
	if (state.kind == STATE_AT || state.kind == STATE_IN) {
		onward_state(thread, &state, context);
		onward_go(thread, context);
		return;
	}
	thread->is_deferred = 1;
	if (state.kind != STATE_ENGINE) {
		step(thread, context);
	} else if (is_at_regs(rip)) {
		onward_regs(thread, context);
		onward_go(thread, context);
	} else if ((rip >= (uint64_t)gate_call_check && rip <= (uint64_t)gate_call_at) ||
		   (rip == (uint64_t)gate_call_done &&
		    *frame_gpr(context, 0) == (uint64_t)-EINTR)) {
		/* It makes the call natively. */
		thread->regs.rip = thread->call_next - 2;
		thread->call_next = 0;
		called_broken_off(thread);
		onward_regs(thread, context);
		onward_go(thread, context);
	}
}

static void trap_note(struct thread *thread, const siginfo_t *info,
		      const struct frame_context *context)
{
	const greg_t *regs = context->uc_mcontext.gregs;

	if (!action_is_fault(info) || info->si_signo == SIGSYS)
		return;
	thread->trap.error = (uint64_t)regs[REG_ERR];
	thread->trap.number = (uint64_t)regs[REG_TRAPNO];
	if (info->si_signo == SIGSEGV || info->si_signo == SIGBUS)
		thread->trap.address = (uint64_t)regs[REG_CR2];
}

extern const char __ehdr_start[], _end[];

static int is_outside(uint64_t rip)
{
	return (rip < (uint64_t)__ehdr_start || rip >= (uint64_t)_end) && !cache_has(rip);
}

void signal_handle(int number, void *about, void *data)
{
	struct thread *thread = self();
	struct frame_context *context = data;
	siginfo_t *info = about;
	struct state state;

	if (!thread) {
		if (!leave_is_told(info))
			in_native(info, context);
		return;
	}
	if (thread->is_leaving && number == SIGILL && info->si_code > 0) {
		left(thread, context);
		return;
	}
	if (leave_is_told(info)) {
		reported(thread, context);
		return;
	}
	if (own(thread, info, context))
		return;
	/* To the program, nothing is mapped where we are. */
	if (number == SIGSEGV && info->si_code == SEGV_ACCERR &&
	    places_meet((uint64_t)info->si_addr, 1))
		info->si_code = SEGV_MAPERR;
	if (*frame_rip(context) != (uint64_t)gate_signal)
		trap_note(thread, info, context);
	/* A handler of the program may run in a thread that has not left. */
	if (thread->is_native || (leave_is_asked() && is_outside(*frame_rip(context)))) {
		in_native(info, context);
		return;
	}
	if (thread->is_trying) {
		if (action_is_fault(info))
			onward_fault(thread, info, context);
		else
			onward_defer(thread, info, context);
		return;
	}
	state_look(&state, *frame_rip(context));
	if (state.kind == STATE_ENGINE)
		in_engine(thread, info, context);
	else
		in_cache(thread, info, context, &state);
}

/* ---- begun ---- */

int signal_open(struct thread *thread)
{
	sys_call(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)&thread->blocked, ACTION_SET_BYTES, 0, 0);
	action_mask_set(action_mask(thread->blocked));
	return signal_open_all();
}

int signal_open_all(void)
{
	frame_open();
	return action_open(gate_handler);
}
