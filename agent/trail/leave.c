/* SPDX-License-Identifier: MIT */
#include "agent/trail/leave.h"
#include "agent/trail/action.h"
#include "agent/trail/gate.h"
#include "agent/trail/lock.h"
#include "agent/trail/sys.h"

static struct thread *first;
static uint32_t lock; /* of the list; never held while a handler of ours asks for it */
static uint32_t is_asked;

void leave_enlist(struct thread *thread)
{
	lock_take(&lock);
	thread->next_thread = first;
	first = thread;
	if (is_asked)
		thread->is_deferred = 1;
	lock_give(&lock);
}

void leave_delist(struct thread *thread)
{
	struct thread **at = &first;

	lock_take(&lock);
	while (*at && *at != thread)
		at = &(*at)->next_thread;
	if (*at)
		*at = thread->next_thread;
	lock_give(&lock);
}

int leave_is_alone(void)
{
	int is_alone;

	lock_take(&lock);
	is_alone = first && !first->next_thread;
	lock_give(&lock);
	return is_alone;
}

int leave_is_asked(void)
{
	return (int)__atomic_load_n(&is_asked, __ATOMIC_ACQUIRE);
}

int leave_is_told(const siginfo_t *info)
{
	return info->si_signo == SIGTRAP && info->si_code == SI_QUEUE &&
	       info->si_ptr == (void *)&is_asked;
}

void leave_copy_begin(void)
{
	lock_take(&lock);
}

void leave_copy_end(int is_copy)
{
	if (is_copy)
		first = NULL;
	lock_give(&lock);
}

/* It is refused where a filter does not want it, or the queue is full: the thread leaves when it comes to the engine. */
static void tell(const struct thread *thread, long pid)
{
	siginfo_t info = { 0 };

	info.si_signo = SIGTRAP;
	info.si_code = SI_QUEUE;
	info.si_pid = (int)pid;
	info.si_ptr = (void *)&is_asked;
	sys_call(SYS_rt_tgsigqueueinfo, pid, thread->tid, SIGTRAP, (long)&info, 0, 0);
}

void leave_ask(void)
{
	long pid = sys_call3(SYS_getpid, 0, 0, 0);
	uint64_t self;

	__asm__("mov %%gs:0, %0" : "=r"(self));
	if (leave_is_asked())
		return;
	lock_take(&lock);
	if (!is_asked) {
		__atomic_store_n(&is_asked, 1, __ATOMIC_SEQ_CST);
		action_leave();
		for (struct thread *at = first; at; at = at->next_thread) {
			__atomic_store_n(&at->is_deferred, 1, __ATOMIC_SEQ_CST);
			/* Who is in a call, or is about to be, looks before it goes on. */
			if ((uint64_t)at != self &&
			    !__atomic_load_n(&at->call_next, __ATOMIC_SEQ_CST))
				tell(at, pid);
		}
	}
	lock_give(&lock);
}

void leave_tell_all(void)
{
	long pid = sys_call3(SYS_getpid, 0, 0, 0);
	uint64_t self;

	__asm__("mov %%gs:0, %0" : "=r"(self));
	lock_take(&lock);
	for (struct thread *at = first; at; at = at->next_thread)
		if ((uint64_t)at != self)
			tell(at, pid);
	lock_give(&lock);
}

void leave(struct thread *thread, uint64_t pc)
{
	const stack_t none = { .ss_flags = SS_DISABLE };
	const uint64_t mask = ~action_own;

	if (!thread->is_process)
		leave_ask();
	/* Who stands on the stack for signals can't have another. */
	sys_call3(SYS_sigaltstack, (long)&none, 0, 0);
	thread->regs.rip = pc;
	thread->is_leaving = 1;
	sys_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, ACTION_SET_BYTES, 0, 0);
	gate_signal();
}
