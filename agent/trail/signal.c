/* SPDX-License-Identifier: MIT */
#include "agent/trail/signal.h"
#include "agent/trail/action.h"
#include "agent/trail/cache.h"
#include "agent/trail/dispatch.h"
#include "agent/trail/frame.h"
#include "agent/trail/gate.h"
#include "agent/trail/leave.h"
#include "agent/trail/lock.h"
#include "agent/trail/memory.h"
#include "agent/trail/pages.h"
#include "agent/trail/profile.h"
#include "agent/trail/ring.h"
#include "agent/trail/state.h"
#include "agent/trail/sys.h"
#include "agent/trail/threads.h"
#include "agent/trail/translate.h"

#include <asm/prctl.h>
#include <errno.h>

#define FLAG_TRAP 0x100u
#define FLAG_DIRECTION 0x400u
#define FLAG_RESUME 0x10000u
#define RED_ZONE 128u
#define STACK_AUTODISARM (1u << 31) /* SS_AUTODISARM of linux/signal.h */
#define STACK_MIN 2048u		    /* MINSIGSTKSZ */

static struct thread *self(void)
{
	struct thread *thread;

	__asm__("mov %%gs:0, %0" : "=r"(thread));
	return thread;
}

/* The kernel's mask where the program's is this. */
static uint64_t kernel_mask(uint64_t blocked)
{
	return blocked & ~action_unblocked;
}

static void mask_set(uint64_t mask)
{
	sys_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, ACTION_SET_BYTES, 0, 0);
}

/* ---- the program's handler ---- */

/* Where the frame goes: below the red zone, or on the stack that the program has for it. */
static uint64_t frame_place(struct thread *thread, const struct action *action, uint64_t rsp,
			    uint64_t bytes)
{
	uint64_t base = thread->stack_asked.at, size = thread->stack_asked.bytes;
	int is_on = size && rsp > base && rsp <= base + size;
	uint64_t at = rsp - RED_ZONE;

	if (action->flags & SA_ONSTACK && size && !(thread->stack_asked.flags & SS_DISABLE) &&
	    !is_on)
		at = base + size;
	return ((at - bytes) & ~UINT64_C(63));
}

static void stack_tell(const struct thread *thread, stack_t *stack, uint64_t rsp)
{
	uint64_t base = thread->stack_asked.at, size = thread->stack_asked.bytes;

	*stack = (stack_t){ .ss_sp = (void *)base,
			    .ss_flags = (int)thread->stack_asked.flags,
			    .ss_size = size };
	if (!size)
		stack->ss_flags = SS_DISABLE;
	else if (rsp > base && rsp <= base + size)
		stack->ss_flags |= SS_ONSTACK;
}

/*
 * The program's handler is entered from where *context says the program is: a frame as the kernel's on its stack, and *context
 * made the handler's first moment. 0, or -EFAULT: there is no stack to put it on.
 */
static int handler_enter(struct thread *thread, const struct action *action, const siginfo_t *info,
			 struct frame_context *context)
{
	const void *vectors = context->uc_mcontext.fpregs;
	uint32_t vector_bytes = frame_state_bytes(vectors);
	uint64_t rsp = *frame_gpr(context, 4);
	uint64_t at = frame_place(thread, action, rsp, vector_bytes);
	uint64_t vectors_at = at;
	struct frame frame;

	at = ((at - sizeof(frame)) & ~UINT64_C(15)) - 8;
	frame.returns = action->restorer;
	frame.context = *context;
	frame.info = *info;
	frame.context.uc_link = 0;
	frame.context.uc_mcontext.fpregs = (fpregset_t)vectors_at;
	stack_tell(thread, &frame.context.uc_stack, rsp);
	if (thread->stack_asked.flags & STACK_AUTODISARM)
		thread->stack_asked.bytes = 0;
	frame.context.uc_sigmask = thread->blocked;
	if (gate_copy((void *)vectors_at, vectors, vector_bytes) ||
	    gate_copy((void *)at, &frame, sizeof(frame)))
		return -EFAULT;
	*frame_gpr(context, 4) = at;
	*frame_gpr(context, 7) = (uint64_t)info->si_signo;
	*frame_gpr(context, 6) = at + offsetof(struct frame, info);
	*frame_gpr(context, 2) = at + offsetof(struct frame, context);
	*frame_gpr(context, 0) = 0;
	*frame_flags(context) &= ~(uint64_t)(FLAG_DIRECTION | FLAG_RESUME | FLAG_TRAP);
	*frame_rip(context) = action->handler;
	thread->blocked |= action->mask;
	if (!(action->flags & SA_NODEFER))
		thread->blocked |= ACTION_BIT(info->si_signo);
	*frame_mask(context) = kernel_mask(thread->blocked);
	return 0;
}

/* ---- deliver ---- */

/* It ends the program, as it would without us: the same signal again, where and as the program is. */
static void die(struct thread *thread, int number, const siginfo_t *info,
		struct frame_context *context)
{
	action_default(number);
	*frame_mask(context) &= ~ACTION_BIT(number);
	thread->is_native = 1;
	sys_call3(SYS_arch_prctl, ARCH_SET_GS, 0, 0);
	if (info->si_code <= 0 || number == SIGTRAP) /* nothing there would raise it again */
		sys_call(SYS_rt_tgsigqueueinfo, sys_call3(SYS_getpid, 0, 0, 0), thread->tid, number,
			 (long)info, 0, 0);
}

/* What the program would do with it in translated code: on from *context, which is the program's. */
static void to_cache(struct thread *thread, struct frame_context *context)
{
	struct trace *trace;
	int error;

	lock_take(&dispatch_lock);
	trace = translate(*frame_rip(context), &error);
	lock_give(&dispatch_lock);
	if (!trace) { /* it faults where the program wanted to be */
		thread->is_native = 1;
		return;
	}
	*frame_rip(context) = (uint64_t)trace->head;
	frame_vector15_get(context->uc_mcontext.fpregs, thread->vector15);
	{
		static const uint8_t none[64];

		frame_vector15_set(context->uc_mcontext.fpregs, none);
	}
	*frame_xmm15(context) = thread->pointer;
}

/* *context is the program's, its place told in the trail but for the event. */
static void deliver(struct thread *thread, int number, const siginfo_t *info,
		    struct frame_context *context, uint32_t left)
{
	struct action action = action_take(number);
	uint64_t at = *frame_rip(context);
	int is_fault = info->si_code > 0 && info->si_code != SI_KERNEL;

	if (is_fault && thread->blocked & ACTION_BIT(number) & action_unblocked)
		action.handler = (uint64_t)SIG_DFL; /* the kernel forces it on who has it blocked */
	if (action.handler == (uint64_t)SIG_IGN && !is_fault) {
		to_cache(thread, context);
		return;
	}
	ring_event(thread, TRAIL_SIGNAL, at, left, (uint64_t)number,
		   action.handler > (uint64_t)SIG_IGN ? action.handler : 0);
	if (action.handler <= (uint64_t)SIG_IGN || handler_enter(thread, &action, info, context)) {
		die(thread, number, info, context);
		return;
	}
	to_cache(thread, context);
}

/* The path up to where the program is, in the trail. */
static void tell_path(struct thread *thread, const struct state *state)
{
	uint32_t blocks = state->block + (state->ran ? 1 : 0);
	uint32_t id;

	if (!blocks)
		return;
	lock_take(&dispatch_lock);
	id = trace_prefix(state->trace, blocks);
	lock_give(&dispatch_lock);
	if (!id)
		return;
	if ((uint32_t *)thread->pointer == thread->words_end)
		ring_turn(thread);
	*(uint32_t *)thread->pointer = id;
	thread->pointer += 4;
}

/* Not now: it is queued again for this thread, and everything is blocked. */
static void defer(struct thread *thread, int number, siginfo_t *info, struct frame_context *context)
{
	thread->is_deferred = 1;
	*frame_mask(context) = ~(action_own);
	sys_call(SYS_rt_tgsigqueueinfo, sys_call3(SYS_getpid, 0, 0, 0), thread->tid, number,
		 (long)info, 0, 0);
}

static void step(struct thread *thread, struct frame_context *context)
{
	thread->is_stepping = 1;
	*frame_flags(context) |= FLAG_TRAP;
}

/* A step of ours is done: at an instruction of the program's, what waits may come. */
static void stepped(struct thread *thread, struct frame_context *context)
{
	struct state state;

	state_look(&state, context);
	if (state.kind == STATE_BETWEEN)
		return;
	thread->is_stepping = 0;
	*frame_flags(context) &= ~(uint64_t)FLAG_TRAP;
	if (state.kind == STATE_ENGINE)
		return; /* deferred until it is done */
	thread->is_deferred = 0;
	*frame_mask(context) = kernel_mask(thread->blocked);
}

/* ---- the engine's own ---- */

/* A word found no room: movl $id, (reg), and reg is what xmm15 is. */
static int guard_met(struct thread *thread, const siginfo_t *info, struct frame_context *context)
{
	const uint8_t *at = (const uint8_t *)*frame_rip(context);
	unsigned int reg = 0;

	if (!ring_is_guard(thread, (uint64_t)info->si_addr) || !cache_has((uint64_t)at))
		return 0;
	if (*at == 0x41) {
		reg = 8;
		at++;
	}
	reg |= at[1] & 7;
	thread->pointer = (uint64_t)info->si_addr;
	profile_look(thread);
	ring_turn(thread);
	*frame_gpr(context, reg) = thread->pointer;
	*frame_xmm15(context) = thread->pointer;
	return 1;
}

static void tell_path(struct thread *thread, const struct state *state);
static void to_cache(struct thread *thread, struct frame_context *context);

/* A write to code that is guarded: it may go on, with what was translated of that given up. */
static int write_met(struct thread *thread, const siginfo_t *info, struct frame_context *context)
{
	struct state state;
	int was_ours;

	if (info->si_code != SEGV_ACCERR || !(context->uc_mcontext.gregs[REG_ERR] & 2))
		return 0;
	state_look(&state, context);
	lock_take(&dispatch_lock);
	was_ours = pages_written((uint64_t)info->si_addr, state.pc);
	lock_give(&dispatch_lock);
	if (!was_ours || state.kind == STATE_ENGINE || !state.trace->is_dead)
		return was_ours;
	if (state.kind == STATE_BETWEEN)
		return 1; /* where it goes next is not in this trace */
	state_to_program(&state, thread, context);
	tell_path(thread, &state);
	ring_event(thread, TRAIL_GAP, state.pc, state.ran ? state.left : 0, TRAIL_GAP_SUSPENDED, 0);
	to_cache(thread, context);
	return 1;
}

static int own(struct thread *thread, int number, const siginfo_t *info,
	       struct frame_context *context)
{
	uint64_t rip = *frame_rip(context);

	if (number == SIGTRAP && thread->is_stepping && info->si_code == TRAP_TRACE) {
		stepped(thread, context);
		return 1;
	}
	if (number != SIGSEGV || info->si_code <= 0)
		return 0;
	if (rip >= (uint64_t)gate_copy && rip < (uint64_t)gate_copy_done) {
		*frame_rip(context) = (uint64_t)gate_copy_failed;
		return 1;
	}
	if (!rip && !thread->is_native) {
		*frame_rip(context) = (uint64_t)gate_miss;
		return 1;
	}
	if (!thread->is_native && guard_met(thread, info, context))
		return 1;
	return write_met(thread, info, context);
}

/* leave(): the frame is made what the thread has, and native. */
static void left(struct thread *thread, struct frame_context *context)
{
	for (unsigned int i = 0; i < 16; i++)
		*frame_gpr(context, i) = thread->regs.gpr[i];
	*frame_rip(context) = thread->regs.rip;
	*frame_flags(context) = thread->regs.rflags;
	frame_vector15_set(context->uc_mcontext.fpregs, thread->vector15);
	*frame_mask(context) = thread->blocked;
	thread->is_leaving = 0;
	thread->is_native = 1;
}

/* ---- what comes ---- */

/* In the engine: the program may be at a system call that gives way. */
static void in_engine(struct thread *thread, int number, siginfo_t *info,
		      struct frame_context *context)
{
	uint64_t rip = *frame_rip(context);
	struct engine_regs *regs = &thread->regs;

	if (rip >= (uint64_t)gate_unblock && rip <= (uint64_t)gate_unblock_done) {
		thread->is_deferred = 0;
	} else if (thread->is_plain && rip >= (uint64_t)gate_call &&
		   rip <= (uint64_t)gate_call_at) {
		regs->rip = thread->call_next - 2;
		if (rip ==
		    (uint64_t)gate_call_at) /* restart_syscall(2), where the kernel says so */
			regs->gpr[0] = *frame_gpr(context, 0);
	} else if (thread->is_plain && rip == (uint64_t)gate_call_done) {
		regs->rip = regs->gpr[1] = thread->call_next;
		regs->gpr[0] = *frame_gpr(context, 0);
		regs->gpr[11] = regs->rflags;
	} else {
		defer(thread, number, info, context);
		return;
	}
	thread->is_plain = 0;
	for (unsigned int i = 0; i < 16; i++)
		*frame_gpr(context, i) = regs->gpr[i];
	*frame_rip(context) = regs->rip;
	*frame_flags(context) = regs->rflags;
	frame_vector15_set(context->uc_mcontext.fpregs, thread->vector15);
	deliver(thread, number, info, context, regs->rip == thread->call_next - 2);
}

/* A native thread: all is the program's. */
static void in_native(struct thread *thread, int number, siginfo_t *info,
		      struct frame_context *context)
{
	struct action action = action_take(number);

	if (action.handler == (uint64_t)SIG_IGN && info->si_code <= 0)
		return;
	if (action.handler <= (uint64_t)SIG_IGN || handler_enter(thread, &action, info, context))
		die(thread, number, info, context);
}

static void handler(int number, void *about, void *data)
{
	struct thread *thread = self();
	struct frame_context *context = data;
	siginfo_t *info = about;
	struct state state;

	if (thread->is_leaving && number == SIGILL) {
		left(thread, context);
		return;
	}
	if (own(thread, number, info, context))
		return;
	if (thread->is_native) {
		in_native(thread, number, info, context);
		return;
	}
	state_look(&state, context);
	if (state.kind == STATE_ENGINE) {
		in_engine(thread, number, info, context);
		return;
	}
	if (state.kind == STATE_BETWEEN || (state.kind == STATE_IN && info->si_code <= 0)) {
		defer(thread, number, info, context);
		step(thread, context);
		return;
	}
	state_to_program(&state, thread, context);
	tell_path(thread, &state);
	deliver(thread, number, info, context, state.ran ? state.left : 0);
}

void signal_deliver_deferred(struct thread *thread)
{
	uint64_t mask = kernel_mask(thread->blocked);

	gate_unblock(&mask);
	thread->is_deferred = 0;
}

/* ---- the program's calls ---- */

int signal_open(struct thread *thread)
{
	sys_call(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)&thread->blocked, ACTION_SET_BYTES, 0, 0);
	mask_set(kernel_mask(thread->blocked));
	frame_open();
	return action_open(handler);
}

int signal_thread(struct thread *thread)
{
	stack_t stack = { .ss_sp = (void *)thread->signal_stack, .ss_size = THREAD_SIGNAL_BYTES };

	return (int)sys_call3(SYS_sigaltstack, (long)&stack, 0, 0);
}

void signal_inherit(struct thread *child, const struct thread *thread, int is_thread)
{
	child->blocked = thread->blocked;
	if (!is_thread)
		child->stack_asked = thread->stack_asked;
}

long signal_mask_call(struct thread *thread)
{
	const uint64_t *gpr = thread->regs.gpr;
	uint64_t set, was = thread->blocked, blocked = was;

	if (gpr[10] != ACTION_SET_BYTES)
		return -EINVAL;
	if (gpr[6]) {
		if (gate_copy(&set, (const void *)gpr[6], 8))
			return -EFAULT;
		if (gpr[7] == SIG_BLOCK)
			blocked |= set;
		else if (gpr[7] == SIG_UNBLOCK)
			blocked &= ~set;
		else if (gpr[7] == SIG_SETMASK)
			blocked = set;
		else
			return -EINVAL;
		thread->blocked = blocked & ~(ACTION_BIT(SIGKILL) | ACTION_BIT(SIGSTOP));
		/* Deferred meanwhile, it is set when that ends; what comes in between is deferred again. */
		if (!thread->is_deferred)
			mask_set(kernel_mask(thread->blocked));
	}
	if (gpr[2] && gate_copy((void *)gpr[2], &was, 8))
		return -EFAULT;
	return 0;
}

long signal_action_call(struct thread *thread)
{
	const uint64_t *gpr = thread->regs.gpr;

	return action_call(gpr[7], gpr[6], gpr[2], gpr[10]);
}

long signal_stack_call(struct thread *thread)
{
	const uint64_t *gpr = thread->regs.gpr;
	uint64_t rsp = gpr[4], base = thread->stack_asked.at, size = thread->stack_asked.bytes;
	stack_t asked, was;

	stack_tell(thread, &was, rsp);
	if (gpr[7]) {
		if (gate_copy(&asked, (const void *)gpr[7], sizeof(asked)))
			return -EFAULT;
		if (size && rsp > base && rsp <= base + size &&
		    !(thread->stack_asked.flags & STACK_AUTODISARM))
			return -EPERM;
		if (asked.ss_flags & ~(SS_DISABLE | SS_ONSTACK | (int)STACK_AUTODISARM))
			return -EINVAL;
		if (asked.ss_flags & SS_DISABLE)
			asked = (stack_t){ .ss_flags = SS_DISABLE };
		else if (asked.ss_size < STACK_MIN)
			return -ENOMEM;
		thread->stack_asked.at = (uint64_t)asked.ss_sp;
		thread->stack_asked.bytes = asked.ss_size;
		thread->stack_asked.flags = (uint32_t)asked.ss_flags & ~(uint32_t)SS_ONSTACK;
	}
	if (gpr[6] && gate_copy((void *)gpr[6], &was, sizeof(was)))
		return -EFAULT;
	return 0;
}

void signal_return_call(struct thread *thread)
{
	static const uint64_t all = ~UINT64_C(0);
	uint64_t rsp = thread->regs.gpr[4];
	struct {
		struct frame_context context;
		uint8_t vectors[FRAME_STATE_MAX] __attribute__((aligned(64)));
	} copy;
	struct frame_context *context = &copy.context;
	uint8_t head[512];
	uint32_t bytes = 0;

	mask_set(all & ~action_own);
	thread->is_deferred = thread->is_plain = 0;
	if (gate_copy(&copy.context, (const void *)rsp, sizeof(copy.context)))
		goto bad;
	if (context->uc_mcontext.fpregs) {
		if (gate_copy(head, context->uc_mcontext.fpregs, sizeof(head)))
			goto bad;
		bytes = frame_state_bytes(head);
		if (!bytes || gate_copy(copy.vectors, context->uc_mcontext.fpregs, bytes))
			goto bad;
	} else { /* as the processor begins: there is a frame of ours to take it from */
		goto bad;
	}
	context->uc_mcontext.fpregs = (fpregset_t)copy.vectors;
	thread->stack_asked.at = (uint64_t)context->uc_stack.ss_sp;
	thread->stack_asked.bytes = context->uc_stack.ss_flags & SS_DISABLE
					    ? 0
					    : context->uc_stack.ss_size;
	thread->stack_asked.flags = (uint32_t)context->uc_stack.ss_flags &
				    ~(uint32_t)(SS_ONSTACK | SS_DISABLE);
	context->uc_stack = (stack_t){ .ss_sp = (void *)thread->signal_stack,
				       .ss_size = THREAD_SIGNAL_BYTES };
	thread->blocked = context->uc_sigmask & ~(ACTION_BIT(SIGKILL) | ACTION_BIT(SIGSTOP));
	*frame_mask(context) = kernel_mask(thread->blocked);
	ring_event(thread, TRAIL_SYSCALLED, *frame_rip(context), 0, SYS_rt_sigreturn,
		   *frame_gpr(context, 0));
	to_cache(thread, context);
	gate_return(&copy.context);
bad:
	leave(thread, thread->regs.rip);
}

void leave(struct thread *thread, uint64_t pc)
{
	thread->regs.rip = pc;
	thread->is_leaving = 1;
	mask_set(~action_own); /* the program may have SIGILL blocked */
	for (;;)
		__asm__ volatile("ud2");
}
