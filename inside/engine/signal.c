/* SPDX-License-Identifier: MIT */
#include "inside/engine/signal.h"

#include "base/debug_trace.h"
#include "inside/engine/action.h"
#include "inside/engine/cache.h"
#include "inside/engine/channel.h"
#include "inside/engine/child_process.h"
#include "inside/engine/dispatch.h"
#include "inside/engine/engine_lock.h"
#include "inside/engine/engine_memory.h"
#include "inside/engine/engine_syscall.h"
#include "inside/engine/engine_threads.h"
#include "inside/engine/gate.h"
#include "inside/engine/glue.h"
#include "inside/engine/leave.h"
#include "inside/engine/map.h"
#include "inside/engine/pages.h"
#include "inside/engine/pending_signals.h"
#include "inside/engine/places.h"
#include "inside/engine/profile.h"
#include "inside/engine/ranges.h"
#include "inside/engine/rseq.h"
#include "inside/engine/signal_frame.h"
#include "inside/engine/state.h"
#include "inside/engine/sys.h"
#include "inside/engine/thread_words.h"
#include "inside/engine/trace.h"

#include <asm/prctl.h>
#include <errno.h>

static void onward_deliver(struct thread *thread, const siginfo_t *info,
			   struct frame_context *context, uint32_t left, const uint64_t *back_to);
static void onward_go(struct thread *thread, struct frame_context *context);

int signal_thread(struct thread *thread)
{
	stack_t stack = { .ss_sp = (void *)thread->signal_stack, .ss_size = THREAD_SIGNAL_BYTES };
	stack_t was;
	long err = sys_call3(SYS_sigaltstack, (long)&stack, (long)&was, 0);

	/* It was ours already; or there was none, and what that is like is inherited. */
	if (err || thread->is_process || thread->stack_asked.bytes || !was.ss_size)
		return (int)err;
	thread->stack_asked.at = (uint64_t)was.ss_sp;
	thread->stack_asked.bytes = was.ss_size;
	thread->stack_asked.flags = (uint32_t)was.ss_flags & ~(uint32_t)SS_ONSTACK;
	return 0;
}

void signal_stack_restore(const struct thread *thread, stack_t *stack)
{
	*stack = (stack_t){ .ss_sp = (void *)thread->stack_asked.at,
			    .ss_flags = (int)thread->stack_asked.flags,
			    .ss_size = thread->stack_asked.bytes };
	if (!stack->ss_size)
		stack->ss_flags = SS_DISABLE;
	sys_call3(SYS_sigaltstack, (long)stack, 0, 0);
}

void signal_inherit(struct thread *child, const struct thread *thread, int shares_memory)
{
	child->blocked = thread->blocked;
	child->trap.error = thread->trap.error;
	child->trap.number = thread->trap.number;
	child->trap.address = thread->trap.address;
	child->stack_asked.flags = SS_DISABLE;
	if (!shares_memory)
		child->stack_asked = thread->stack_asked;
}

void signal_hold_all(void)
{
	action_mask_set(~UINT64_C(0));
}

void signal_let_all(struct thread *thread)
{
	action_mask_set(thread->is_deferred ? ~action_own : action_mask(thread->blocked));
}

int signal_end(struct thread *thread)
{
	signal_hold_all();
	if (!thread->is_deferred)
		return 1;
	signal_let_all(thread);
	return 0;
}

#define FLAG_TRAP 0x100u

/* The frame's registers are what the engine has for the program. */
static void onward_regs(struct thread *thread, struct frame_context *context)
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

void signal_onward_path(struct thread *thread, const struct state *state)
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

/* Make the frame the program's, from what state_look() found. Records the path in the trail. */
static void onward_state(struct thread *thread, const struct state *state,
			 struct frame_context *context)
{
	state_to_program(state, thread, context);
	signal_onward_path(thread, state);
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

/*
 * Of a thread that runs natively for the moment (is_trying): its step's trap, behind which it
 * continues natively or in translated code; and a fault.
 */
static void onward_tried(struct thread *thread, const siginfo_t *info,
			 struct frame_context *context)
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

static void onward_fault(struct thread *thread, const siginfo_t *info,
			 struct frame_context *context)
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

/* From where *context says, in translated code; natively where that can't be. */
static void onward_cache(struct thread *thread, struct frame_context *context)
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
	thread->traced = *frame_flags(context) & FLAG_TRAP ? (uint64_t)trace->head : 0;
	frame_vector15_get(context->uc_mcontext.fpregs, thread->vector15);
	frame_vector15_set(context->uc_mcontext.fpregs, none);
	frame_pointer_set(context, thread);
}

/* *context is the program's, after whatever was delivered; what is held comes on top. */
static void onward_go(struct thread *thread, struct frame_context *context)
{
	siginfo_t info;

	while (pending_signals_take(thread, &info))
		if (signal_deliver(thread, &info, context, 0, NULL))
			return;
	thread->is_deferred = 0;
	if (leave_is_wanted() && !leave_is_asked())
		leave_together(1);
	if (leave_is_asked()) {
		quit(thread, context);
		return;
	}
	*frame_mask(context) = action_mask(thread->blocked);
	onward_cache(thread, context);
}

/*
 * *context is the program's. The trail has its place, but not the event. `left`, `back_to`:
 * signal_deliver()'s.
 */
static void onward_deliver(struct thread *thread, const siginfo_t *info,
			   struct frame_context *context, uint32_t left, const uint64_t *back_to)
{
	if (!action_is_fault(info) && action_own & thread->blocked & ACTION_BIT(info->si_signo))
		pending_signals_add(thread, info);
	else if (signal_deliver(thread, info, context, left, back_to))
		return;
	onward_go(thread, context);
}

/* Everything is blocked until the engine is done, also where it was about to set the mask. */
static void defer(struct thread *thread, struct frame_context *context)
{
	uint64_t rip = *frame_rip(context);

	if (rip >= (uint64_t)gate_mask_check && rip <= (uint64_t)gate_mask_at)
		*frame_rip(context) = (uint64_t)gate_mask_done;
	thread->is_deferred = 1;
	*frame_mask(context) = ~action_own;
}

/* Not now, but when the engine is done. */
static void onward_defer(struct thread *thread, const siginfo_t *info,
			 struct frame_context *context)
{
	pending_signals_add(thread, info);
	defer(thread, context);
}

#define FLAG_DIRECTION 0x400u
#define FLAG_RESUME 0x10000u
#define RED_ZONE TRAIL_RED_ZONE
#define TRAP_PAGE 14u
#define STACK_AUTODISARM (1u << 31) /* SS_AUTODISARM of linux/signal.h */
#define STACK_MIN 2048u		    /* MINSIGSTKSZ */

/* ---- its stack ---- */

static int is_in(const struct thread *thread, uint64_t sp)
{
	return sp > thread->stack_asked.at &&
	       sp - thread->stack_asked.at <= thread->stack_asked.bytes;
}

/* With SS_AUTODISARM a thread is never on its signal stack, unless by its own doing. */
static int is_on(const struct thread *thread, uint64_t sp)
{
	return !(thread->stack_asked.flags & STACK_AUTODISARM) && is_in(thread, sp);
}

static void stack_reset(struct thread *thread)
{
	thread->stack_asked.at = thread->stack_asked.bytes = 0;
	thread->stack_asked.flags = SS_DISABLE;
}

static void deliver_stack_tell(const struct thread *thread, stack_t *stack, uint64_t rsp)
{
	memory_clear(stack, sizeof(*stack)); /* and what is between its fields */
	stack->ss_sp = (void *)thread->stack_asked.at;
	stack->ss_flags = (int)(thread->stack_asked.flags & STACK_AUTODISARM);
	stack->ss_size = thread->stack_asked.bytes;
	if (!stack->ss_size)
		stack->ss_flags |= SS_DISABLE;
	else if (is_on(thread, rsp))
		stack->ss_flags |= SS_ONSTACK;
}

/* The program's stack for signals, as sigaltstack(2): 0 or -errno. */
static long deliver_stack_set(struct thread *thread, const stack_t *asked, uint64_t rsp)
{
	uint32_t flags = (uint32_t)asked->ss_flags, mode = flags & ~STACK_AUTODISARM;

	if (is_on(thread, rsp))
		return -EPERM;
	if (mode != SS_DISABLE && mode != SS_ONSTACK && mode)
		return -EINVAL;
	if (mode != SS_DISABLE && asked->ss_size < STACK_MIN)
		return -ENOMEM;
	thread->stack_asked.at = mode == SS_DISABLE ? 0 : (uint64_t)asked->ss_sp;
	thread->stack_asked.bytes = mode == SS_DISABLE ? 0 : asked->ss_size;
	thread->stack_asked.flags = flags;
	return 0;
}

/*
 * Where the vector registers go, and the frame below: get_sigframe() of the kernel. 0: there is no
 * room.
 */
static uint64_t frame_place(const struct thread *thread, const struct action *action, uint64_t rsp,
			    uint64_t vector_bytes, uint64_t *vectors_at)
{
	int is_bound = is_on(thread, rsp);
	uint64_t at = rsp - RED_ZONE;

	if (action->flags & SA_ONSTACK && thread->stack_asked.bytes && !is_on(thread, at)) {
		at = thread->stack_asked.at + thread->stack_asked.bytes;
		is_bound = 1;
	}
	*vectors_at = (at - vector_bytes) & ~UINT64_C(63);
	at = ((*vectors_at - sizeof(struct frame)) & ~UINT64_C(15)) - 8;
	return is_bound && !is_in(thread, at) ? 0 : at;
}

/* ---- its handler ---- */

static void frame_fill(const struct thread *thread, struct frame *frame,
		       const struct action *action, const siginfo_t *info,
		       const struct frame_context *context)
{
	greg_t *regs = frame->context.uc_mcontext.gregs;

	frame->returns = action->restorer;
	frame->context = *context;
	frame->info = *info;
	frame->context.uc_link = 0;
	frame->context.uc_stack = (stack_t){ .ss_sp = (void *)thread->stack_asked.at,
					     .ss_flags = (int)thread->stack_asked.flags,
					     .ss_size = thread->stack_asked.bytes };
	regs[REG_ERR] = (greg_t)thread->trap.error;
	regs[REG_TRAPNO] = (greg_t)thread->trap.number;
	regs[REG_CR2] = (greg_t)thread->trap.address;
}

/*
 * The program's handler is entered from where *context says the program is: a frame as the kernel's
 * on its stack, and *context made the handler's first moment. 0, or -EFAULT: there is no stack to
 * put it on.
 */
static int handler_enter(struct thread *thread, const struct action *action, const siginfo_t *info,
			 struct frame_context *context, uint64_t back_to)
{
	void *vectors = context->uc_mcontext.fpregs;
	uint32_t vector_bytes = frame_state_bytes(vectors);
	uint64_t vectors_at;
	uint64_t at = frame_place(thread, action, *frame_gpr(context, 4), vector_bytes,
				  &vectors_at);
	struct frame frame;

	if (!at || !(action->flags & ACTION_RESTORER))
		return -EFAULT;
	frame_fill(thread, &frame, action, info, context);
	frame.context.uc_mcontext.fpregs = (fpregset_t)vectors_at;
	frame.context.uc_mcontext.gregs[REG_OLDMASK] = (greg_t)back_to;
	frame.context.uc_sigmask = back_to;
	if (vector_bytes)
		state_x87(context->uc_mcontext.fpregs);
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
	frame_vectors_begin(vectors);
	thread->blocked |= action->mask;
	if (!(action->flags & SA_NODEFER))
		thread->blocked |= ACTION_BIT(info->si_signo);
	if (thread->stack_asked.flags & STACK_AUTODISARM)
		stack_reset(thread);
	return 0;
}

/* ---- or what comes instead ---- */

/*
 * It ends the program, as it would without us: the same signal again, where and as the program is.
 * `thread`: NULL, if it has left.
 */
static void deliver_death(struct thread *thread, const siginfo_t *info,
			  struct frame_context *context)
{
	static const uint64_t all = ~UINT64_C(0);
	int number = info->si_signo;
	long pid = sys_call3(SYS_getpid, 0, 0, 0), tid = sys_call3(SYS_gettid, 0, 0, 0);

	/* It comes when the kernel goes back to *context, not here. */
	sys_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, 0, ACTION_SET_BYTES, 0, 0);
	action_default(number);
	*frame_mask(context) = ~ACTION_BIT(number);
	if (thread) {
		thread->is_native = 1;
		sys_call3(SYS_arch_prctl, ARCH_SET_GS, 0, 0);
	}
	/*
	 * Its own text says why, whatever raised it; a filter may refuse that, but then hardly the
	 * other.
	 */
	if (sys_failed(sys_call(SYS_rt_tgsigqueueinfo, pid, tid, number, (long)info, 0, 0)))
		sys_call3(SYS_tgkill, pid, tid, number);
}

static int standard(struct thread *thread, const siginfo_t *info, struct frame_context *context)
{
	switch (action_standard(info->si_signo)) {
	case ACTION_NOTHING:
		return 0;
	case ACTION_STOPS: /* the kernel has the default by now */
		sys_call3(SYS_tgkill, sys_call3(SYS_getpid, 0, 0, 0), thread->tid, info->si_signo);
		return 0;
	default:
		deliver_death(thread, info, context);
		return -1;
	}
}

/* There was no stack for its handler: SIGSEGV, for which there may be another. */
static int overflow(struct thread *thread, int number, struct frame_context *context)
{
	siginfo_t info = { 0 };

	info.si_signo = SIGSEGV;
	info.si_code = SI_KERNEL;
	if (number != SIGSEGV)
		return signal_deliver(thread, &info, context, 0, NULL);
	deliver_death(thread, &info, context);
	return -1;
}

/* An address in it that is of an instruction is the program's. */
static siginfo_t info_of(const siginfo_t *info, uint64_t at)
{
	siginfo_t made = *info;

	if (action_is_fault(info) && (info->si_signo == SIGILL || info->si_signo == SIGFPE ||
				      (info->si_signo == SIGTRAP && info->si_code != SI_KERNEL)))
		made.si_addr = (void *)at;
	return made;
}

/* ---- the thread's values ---- */

static void put_value(struct thread *thread, uint64_t number, uint64_t value)
{
	thread_words_event(thread, TRAIL_VALUE, 0, 0, number, value);
}

static void put_about(struct thread *thread, const siginfo_t *info)
{
	int number = info->si_signo;

	put_value(thread, TRAIL_VALUE_CODE, (uint64_t)(int64_t)info->si_code);
	if (info->si_code <= 0) {
		/* of a timer, of I/O and others, these bytes have something else */
		if (info->si_code == SI_USER || info->si_code == SI_QUEUE ||
		    info->si_code == SI_TKILL)
			put_value(thread, TRAIL_VALUE_SENDER, (uint64_t)info->si_pid);
		return;
	}
	if (number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE ||
	    number == SIGTRAP)
		put_value(thread, TRAIL_VALUE_ADDRESS, (uint64_t)info->si_addr);
	if ((number == SIGSEGV || number == SIGBUS) && thread->trap.number == TRAP_PAGE)
		put_value(thread, TRAIL_VALUE_ERROR, thread->trap.error);
}

/* A signal is about to end the program: record the thread's registers and stack for the reader. */
static void put_values(struct thread *thread, const siginfo_t *info, struct frame_context *context)
{
	uint64_t at = *frame_gpr(context, 4) - TRAIL_RED_ZONE, word;

	put_about(thread, info);
	for (unsigned int i = 0; i < 16; i++)
		put_value(thread, TRAIL_VALUE_REGISTERS + i, *frame_gpr(context, i));
	put_value(thread, TRAIL_VALUE_RIP, *frame_rip(context));
	put_value(thread, TRAIL_VALUE_RFLAGS, *frame_flags(context));
	for (unsigned int i = TRAIL_VALUE_STACK; i < TRAIL_VALUES; i++, at += sizeof(word))
		if (!gate_copy(&word, (const void *)at, sizeof(word)))
			put_value(thread, i, word);
}

int signal_deliver(struct thread *thread, const siginfo_t *asked, struct frame_context *context,
		   uint32_t left, const uint64_t *back_to)
{
	siginfo_t made = info_of(asked, *frame_rip(context)), *info = &made;
	struct action action = action_take(info->si_signo);
	uint64_t at = *frame_rip(context);
	int is_fault = action_is_fault(info);

	if (is_fault &&
	    (action.handler == (uint64_t)SIG_IGN || thread->blocked & ACTION_BIT(info->si_signo)))
		action.handler = (uint64_t)SIG_DFL; /* as the kernel forces it */
	if (action.handler == (uint64_t)SIG_IGN)
		return 0;
	if (action.handler == (uint64_t)SIG_DFL && action_standard(info->si_signo) == ACTION_ENDS)
		put_values(thread, info, context);
	thread_words_event(thread, TRAIL_SIGNAL, at, left, (uint64_t)info->si_signo,
			   action.handler);
	if (action.handler == (uint64_t)SIG_DFL)
		return standard(thread, info, context);
	if (handler_enter(thread, &action, info, context, back_to ? *back_to : thread->blocked))
		return overflow(thread, info->si_signo, context);
	return 0;
}

#define UNBLOCKABLE (ACTION_BIT(SIGKILL) | ACTION_BIT(SIGSTOP))

static void blocked_set(struct thread *thread, uint64_t blocked)
{
	uint64_t mask = action_mask(blocked);

	thread->blocked = blocked & ~UNBLOCKABLE;
	gate_mask(&mask); /* deferred, it is set when that ends */
	if (pending_signals_is_due(thread))
		thread->is_deferred = 1;
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
		if ((uint32_t)gpr[7] == SIG_BLOCK)
			blocked |= set;
		else if ((uint32_t)gpr[7] == SIG_UNBLOCK)
			blocked &= ~set;
		else if ((uint32_t)gpr[7] == SIG_SETMASK)
			blocked = set;
		else
			return -EINVAL;
		if (blocked != was)
			blocked_set(thread, blocked);
	}
	if (gpr[2] && gate_copy((void *)gpr[2], &was, 8))
		return -EFAULT;
	return 0;
}

long signal_stack_call(struct thread *thread)
{
	const uint64_t *gpr = thread->regs.gpr;
	uint64_t rsp = gpr[4];
	stack_t asked, was;
	long err = 0;

	deliver_stack_tell(thread, &was, rsp);
	if (gpr[7]) {
		if (gate_copy(&asked, (const void *)gpr[7], sizeof(asked)))
			return -EFAULT;
		err = deliver_stack_set(thread, &asked, rsp);
	}
	if (!err && gpr[6] && gate_copy((void *)gpr[6], &was, sizeof(was)))
		return -EFAULT;
	return err;
}

/* The kernel has not those that are held. */
long signal_pending_call(struct thread *thread, long (*plain)(const struct thread *))
{
	void *at = (void *)thread->regs.gpr[7];
	long result = plain(thread);
	uint64_t set;

	if (result || thread->regs.gpr[6] != ACTION_SET_BYTES || gate_copy(&set, at, sizeof(set)))
		return result;
	set |= pending_signals_set(thread);
	return gate_copy(at, &set, sizeof(set)) ? -EFAULT : 0;
}

/* ppoll(2) and its like: the mask that holds while they wait. 0: the call has none. */
static int signal_call_mask(const struct thread *thread, uint64_t *mask)
{
	const uint64_t *gpr = thread->regs.gpr;
	uint64_t at;

	switch (gpr[0]) {
	case SYS_rt_sigsuspend:
		at = gpr[7];
		break;
	case SYS_ppoll:
		at = gpr[10];
		break;
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
		at = gpr[8];
		break;
	case SYS_pselect6:
	case SYS_io_pgetevents: /* a pointer to it, and its size */
		if (!gpr[9] || gate_copy(&at, (const void *)gpr[9], sizeof(at)))
			return 0;
		break;
	default:
		return 0;
	}
	if (!at || gate_copy(mask, (const void *)at, sizeof(*mask)))
		return 0;
	*mask &= ~(ACTION_BIT(SIGKILL) | ACTION_BIT(SIGSTOP));
	return 1;
}

/* Whether signals were deferred meanwhile, or not: leave_ask() defers them without a mask. */
static void own_let(void)
{
	sys_call(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&action_own, 0, ACTION_SET_BYTES, 0, 0);
}

/*
 * A call that waits for blocked signals finds pending ones in the kernel, where more may arrive
 * meanwhile.
 */
static long wait_for(struct thread *thread, uint64_t set, long (*plain)(const struct thread *))
{
	uint64_t mask = thread->blocked;
	long result;

	/* SIGTRAP asks us to leave: it stays open unless the program has one pending. */
	if (!(pending_signals_set(thread) & ACTION_BIT(SIGTRAP)))
		mask &= ~ACTION_BIT(SIGTRAP);
	gate_mask(&mask);
	pending_signals_wait(thread, set);
	result = plain(thread);
	pending_signals_wait_over(thread);
	own_let();
	return result;
}

static siginfo_t *taken_at(const struct thread *thread)
{
	return (siginfo_t *)(thread->signal_stack - THREAD_STACK_BYTES);
}

/* sigtimedwait(2) into our buffer: the signal may be for us, or its information incomplete. */
static long wait_taking(const struct thread *thread)
{
	const uint64_t *gpr = thread->regs.gpr;

	return gate_call((long)gpr[0], (long)gpr[7], (long)taken_at(thread), (long)gpr[2],
			 (long)gpr[10], (long)gpr[8], (long)gpr[9]);
}

/*
 * What such a call has taken goes to the program, also where a signal came right behind it: the
 * result for the program, or GATE_CALL_LATER.
 */
static long signal_wait_took(struct thread *thread, long result)
{
	siginfo_t *info = taken_at(thread);

	if (result <= 0)
		return result;
	if (leave_is_told(info))
		return GATE_CALL_LATER;
	pending_signals_was_passed(thread, info);
	if (thread->regs.gpr[6] && gate_copy((void *)thread->regs.gpr[6], info, sizeof(*info)))
		return -EFAULT;
	return result;
}

long signal_wait_call(struct thread *thread)
{
	uint64_t set;
	long result;

	if (gate_copy(&set, (const void *)thread->regs.gpr[7], sizeof(set)))
		return -EFAULT;
	if (thread->blocked & action_own)
		result = wait_for(thread, set & thread->blocked, wait_taking);
	else
		result = wait_taking(thread);
	return signal_wait_took(thread, result);
}

/* A signalfd(2) may exist. */
static uint32_t has_descriptors;

void signal_descriptors_expect(void)
{
	__atomic_store_n(&has_descriptors, 1, __ATOMIC_RELAXED);
}

/* Calls that might look at one. Whoever makes another would take signals from those who do. */
static int looks_at_descriptors(uint64_t number)
{
	switch (number) {
	case SYS_read:
	case SYS_readv:
	case SYS_poll:
	case SYS_ppoll:
	case SYS_select:
	case SYS_pselect6:
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
	case SYS_io_getevents:
	case SYS_io_pgetevents:
	case SYS_io_uring_enter:
		return 1;
	default:
		return 0;
	}
}

long signal_other_call(struct thread *thread, long (*plain)(const struct thread *))
{
	uint64_t mask, set = 0;

	if (!(thread->blocked & action_own))
		return plain(thread);
	if (__atomic_load_n(&has_descriptors, __ATOMIC_RELAXED) &&
	    looks_at_descriptors(thread->regs.gpr[0]))
		set = thread->blocked;
	if (signal_call_mask(thread, &mask))
		set |= ~mask;
	return set & action_own ? wait_for(thread, set, plain) : plain(thread);
}

/* The new program finds the mask as this one has it, and what it ignores. */
long signal_exec_call(struct thread *thread, long (*plain)(const struct thread *))
{
	long result;

	gate_mask(&thread->blocked);
	if (!thread_has_guests())
		action_exec(0);
	result = plain(thread);
	own_let();
	return result;
}

/* ---- rt_sigreturn ---- */

struct restored {
	struct frame_context context;
	uint8_t vectors[FRAME_STATE_MAX] __attribute__((aligned(64)));
};

/* What the frame has of vector registers, or what the processor begins with. 0 or -EFAULT. */
static int vectors_read(struct restored *to)
{
	const void *from = to->context.uc_mcontext.fpregs;
	uint32_t bytes;

	to->context.uc_mcontext.fpregs = (fpregset_t)to->vectors;
	for (unsigned int i = 0; i < 512; i += 8)
		*(uint64_t *)(to->vectors + i) = 0;
	if (!from) {
		frame_vectors_begin(to->vectors);
		return 0;
	}
	if (gate_copy(to->vectors, from, 512))
		return -EFAULT;
	bytes = frame_state_bytes(to->vectors);
	return !bytes || gate_copy(to->vectors, from, bytes) ? -EFAULT : 0;
}

/* As the kernel ends a program whose frame it can't read; it may have a handler. */
static void bad_frame(struct thread *thread)
{
	siginfo_t info = { 0 };

	info.si_signo = SIGSEGV;
	info.si_code = SI_KERNEL;
	pending_signals_add(thread, &info);
	thread->is_deferred = 1;
	thread->regs.gpr[0] = 0;
}

static void regs_read(struct thread *thread, struct frame_context *context)
{
	for (unsigned int i = 0; i < 16; i++)
		thread->regs.gpr[i] = *frame_gpr(context, i);
	thread->regs.rip = *frame_rip(context);
	thread->regs.rflags = (thread->regs.rflags & ~UINT64_C(0x50dd5)) |
			      (*frame_flags(context) & 0x50dd5); /* FIX_EFLAGS of the kernel */
}

void signal_return_call(struct thread *thread, uint64_t next)
{
	uint64_t rsp = thread->regs.gpr[4];
	struct restored restored;
	struct frame_context *context = &restored.context;

	restored.context = (struct frame_context){ 0 };
	/* What comes, comes where the frame says; so does what asks us to leave. */
	action_mask_set(~action_own | ACTION_BIT(SIGTRAP));
	thread->regs.rip = next;
	thread->regs.gpr[1] = next;
	if (gate_copy(context, (const void *)rsp, sizeof(*context))) {
		bad_frame(thread);
		gate_signal();
	}
	thread->blocked = *frame_mask(context) & ~UNBLOCKABLE;
	deliver_stack_set(thread, &context->uc_stack, rsp); /* the kernel, too, lets errors be */
	regs_read(thread, context);
	if (vectors_read(&restored)) {
		bad_frame(thread);
		gate_signal();
	}
	thread_words_event(thread, TRAIL_SYSCALLED, thread->regs.rip, 0, SYS_rt_sigreturn,
			   thread->regs.gpr[0]);
	context->uc_stack = (stack_t){ .ss_sp = (void *)thread->signal_stack,
				       .ss_size = THREAD_SIGNAL_BYTES };
	onward_go(thread, context);
	gate_return(context);
}
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

static void step_end(struct thread *thread, struct frame_context *context)
{
	if (!thread->is_stepping)
		return;
	thread->is_stepping = 0;
	*frame_flags(context) = (*frame_flags(context) & ~(uint64_t)FLAG_TRAP) | thread->step_trap;
}

/* The engine has single-stepped: at one of the program's instructions, deliver what is pending. */
static void stepped(struct thread *thread, struct frame_context *context)
{
	struct state state;
	siginfo_t info;

	state_look(&state, *frame_rip(context));
	if (state.kind == STATE_BETWEEN || state.kind == STATE_AMID)
		return;
	step_end(thread, context);
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

	/* an instruction that cleared the flag traps a last time */
	thread->traced = context->uc_mcontext.gregs[REG_EFL] & FLAG_TRAP ? rip : 0;
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
	if (leave_is_asked()) /* by now: the words may have been the segment's last */
		onward_go(thread, context);
	else
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
			DEBUG_TRACE("engine/signal", "at %x: a guard page's fault, continues at %x",
				    rip, *frame_rip(context));
			if (leave_is_wanted())
				reported(thread, context);
			return 1;
		}
	}
	if (info->si_signo == SIGSEGV && write_met(thread, info, context)) {
		DEBUG_TRACE("engine/signal", "at %x: code at %x is written", rip,
			    (long)info->si_addr);
		return 1;
	}
	if (!is_copying(rip) && !is_reading(rip))
		return 0;
	DEBUG_TRACE("engine/signal", "no access to %x of the program's", (long)info->si_addr);
	*frame_rip(context) = (uint64_t)(is_reading(rip) ? gate_read_failed : gate_copy_failed);
	return 1;
}

/* ---- what comes ---- */

/* leave(): the frame is made what the thread has, and native. */
static void left(struct thread *thread, struct frame_context *context)
{
	int is_process = (int)thread->is_process, is_last;

	state_x87(context->uc_mcontext.fpregs);
	/*
	 * Count only now: the last thread gives our handlers back. From here on no thread asks it
	 * to leave, and earlier requests arrive while there is a handler for them.
	 */
	thread_leaves(thread);
	own_let();
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
	signal_stack_restore(thread, &context->uc_stack);
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
	syscall_broken_off(thread);
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

	syscall_broken_off(thread);
	if (regs->gpr[0] == SYS_rt_sigtimedwait)
		result = signal_wait_took(thread, result);
	if (result == GATE_CALL_LATER)
		result = -EINTR;
	syscall_over(thread, thread->call_next, result);
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
		step_end(thread, context);
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

extern const char __ehdr_start[], _end[];

static int is_outside(uint64_t rip)
{
	return (rip < (uint64_t)__ehdr_start || rip >= (uint64_t)_end) && !cache_has(rip);
}

/* Asked to leave: at once where the program is at an instruction, else where it will be next. */
static void reported(struct thread *thread, struct frame_context *context)
{
	uint64_t rip = *frame_rip(context);
	struct state state;

	if (thread->is_native)
		return;
	if (thread->is_trying) {
		defer(thread, context);
		return;
	}
	if (is_outside(rip)) { /* a handler of the program's, which the kernel has entered */
		thread->is_deferred = 1;
		return;
	}
	state_look(&state, rip);
	for (unsigned int i = 0; i < GLUE_MAX && state.kind == STATE_BETWEEN; i++) {
		if (!glue_step(thread, context))
			break;
		state_look(&state, *frame_rip(context));
	}
	if (state.kind == STATE_AT || state.kind == STATE_IN) {
		step_end(thread, context); /* another request may have begun one */
		onward_state(thread, &state, context);
		onward_go(thread, context);
		return;
	}
	defer(thread, context); /* the kernel may have the program's handlers by now */
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
		syscall_broken_off(thread);
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
	/* it came while one of the engine's handlers had SIGTRAP blocked */
	if (action_is_late_hit(info) && !(thread->blocked & ACTION_BIT(SIGTRAP)))
		action_hit_is_ours(info);
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
