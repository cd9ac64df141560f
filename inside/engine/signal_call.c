/* SPDX-License-Identifier: MIT */
#include "inside/engine/action.h"
#include "inside/engine/deliver.h"
#include "inside/engine/engine_threads.h"
#include "inside/engine/gate.h"
#include "inside/engine/leave.h"
#include "inside/engine/onward.h"
#include "inside/engine/pending_signals.h"
#include "inside/engine/signal_call.h"
#include "inside/engine/signal_frame.h"
#include "inside/engine/sys.h"
#include "inside/engine/thread_words.h"

#include <errno.h>

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

long signal_action_call(struct thread *thread)
{
	const uint64_t *gpr = thread->regs.gpr;

	return action_call((uint32_t)gpr[7], gpr[6], gpr[2], gpr[10]);
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

int signal_call_mask(const struct thread *thread, uint64_t *mask)
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

long signal_wait_took(struct thread *thread, long result)
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

long signal_descriptor_call(const struct thread *thread, long (*plain)(const struct thread *))
{
	signal_descriptors_expect();
	return plain(thread);
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
	uint64_t rsp = thread->regs.gpr[4], none = ~action_own;
	struct restored restored;
	struct frame_context *context = &restored.context;

	restored.context = (struct frame_context){ 0 };
	gate_mask(&none); /* what comes, comes where the frame says */
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
