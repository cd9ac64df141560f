/* SPDX-License-Identifier: MIT */
#include "inside/engine/action.h"
#include "inside/engine/cache.h"
#include "inside/engine/deliver.h"
#include "inside/engine/engine_memory.h"
#include "inside/engine/gate.h"
#include "inside/engine/state.h"
#include "inside/engine/sys.h"
#include "inside/engine/thread_words.h"

#include <asm/prctl.h>
#include <errno.h>

#define FLAG_TRAP 0x100u
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

void deliver_stack_tell(const struct thread *thread, stack_t *stack, uint64_t rsp)
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

long deliver_stack_set(struct thread *thread, const stack_t *asked, uint64_t rsp)
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

void deliver_death(struct thread *thread, const siginfo_t *info, struct frame_context *context)
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
		return deliver(thread, &info, context, 0, NULL);
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

int deliver(struct thread *thread, const siginfo_t *asked, struct frame_context *context,
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
