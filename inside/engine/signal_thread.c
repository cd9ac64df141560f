/* SPDX-License-Identifier: MIT */
#include "inside/engine/signal_thread.h"
#include "inside/engine/action.h"
#include "inside/engine/sys.h"

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
