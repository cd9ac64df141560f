/* SPDX-License-Identifier: MIT */
#include "agent/trail/held.h"
#include "agent/trail/action.h"
#include "agent/trail/deliver.h"
#include "agent/trail/sys.h"

static siginfo_t *slot_of(struct thread *thread, int number)
{
	static const uint8_t own[THREAD_HELD - 1] = { SIGSEGV, SIGBUS, SIGILL, SIGTRAP };

	for (unsigned int i = 0; i < THREAD_HELD - 1; i++)
		if (own[i] == number)
			return &thread->held[i];
	return &thread->held[THREAD_HELD - 1];
}

static void requeue(const struct thread *thread, siginfo_t *info)
{
	sys_call(SYS_rt_tgsigqueueinfo, sys_call3(SYS_getpid, 0, 0, 0), thread->tid, info->si_signo,
		 (long)info, 0, 0);
}

void held_add(struct thread *thread, const siginfo_t *info)
{
	siginfo_t *slot = slot_of(thread, info->si_signo), copy = *info;

	if (!slot->si_signo)
		*slot = copy;
	else if (slot == &thread->held[THREAD_HELD - 1])
		requeue(thread, &copy); /* not to be lost, if it should ever be */
}

static int is_due(const struct thread *thread, const siginfo_t *info)
{
	return info->si_signo && (deliver_is_fault(info) ||
				  !(action_own & thread->blocked & ACTION_BIT(info->si_signo)));
}

int held_take(struct thread *thread, siginfo_t *info)
{
	for (unsigned int i = 0; i < THREAD_HELD; i++) {
		if (!is_due(thread, &thread->held[i]))
			continue;
		*info = thread->held[i];
		thread->held[i].si_signo = 0;
		return 1;
	}
	return 0;
}

uint64_t held_set(const struct thread *thread)
{
	uint64_t set = 0;

	for (unsigned int i = 0; i < THREAD_HELD; i++)
		if (thread->held[i].si_signo)
			set |= ACTION_BIT(thread->held[i].si_signo);
	return set;
}

int held_is_due(const struct thread *thread)
{
	for (unsigned int i = 0; i < THREAD_HELD; i++)
		if (is_due(thread, &thread->held[i]))
			return 1;
	return 0;
}

void held_give_back(struct thread *thread)
{
	for (unsigned int i = 0; i < THREAD_HELD; i++) {
		if (thread->held[i].si_signo)
			requeue(thread, &thread->held[i]);
		thread->held[i].si_signo = 0;
	}
}
