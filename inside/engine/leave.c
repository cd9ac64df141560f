/* SPDX-License-Identifier: MIT */
#include "base/debug_trace.h"
#include "inside/engine/action.h"
#include "inside/engine/channel.h"
#include "inside/engine/engine_lock.h"
#include "inside/engine/gate.h"
#include "inside/engine/leave.h"
#include "inside/engine/pending_signals.h"
#include "inside/engine/sys.h"

#include <time.h>

#define POLL_NS 1000000
#define TELLERS_POLLS_MAX 100u
#define RETURN_POLLS_MAX 100u
#define RETURN_POLLS 3u
#define TOLD ((void *)(uintptr_t)ENGINE_MAGIC) /* what our signal, and the tool's, carries */

static struct thread *first;
static uint32_t lock; /* of the list; never held when an engine handler takes it */
static uint32_t is_asked;
static uint32_t is_together, is_over;

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

int leave_any(int (*is)(const struct thread *thread, uint64_t what), uint64_t what)
{
	int is_any = 0;

	lock_take(&lock);
	for (const struct thread *at = first; at && !is_any; at = at->next_thread)
		is_any = is(at, what);
	lock_give(&lock);
	return is_any;
}

int leave_is_asked(void)
{
	return (int)__atomic_load_n(&is_asked, __ATOMIC_ACQUIRE);
}

int leave_is_told(const siginfo_t *info)
{
	return info->si_signo == SIGTRAP && info->si_code == SI_QUEUE && info->si_ptr == TOLD;
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

static siginfo_t told_by(long pid)
{
	siginfo_t info = { 0 };

	info.si_signo = SIGTRAP;
	info.si_code = SI_QUEUE;
	info.si_pid = (int)pid;
	info.si_ptr = TOLD;
	return info;
}

/*
 * The kernel refuses it if a filter forbids it, or the queue is full. Then the thread leaves when
 * it next enters the engine.
 */
static void report(const struct thread *thread, long pid)
{
	siginfo_t info = told_by(pid);

	sys_call(SYS_rt_tgsigqueueinfo, pid, thread->tid, SIGTRAP, (long)&info, 0, 0);
}

/* A teller may be killed, so this wait has a bound. */
void leave_await_tellers(void)
{
	/* pairs with soft_traced.c: it counts itself, and then looks whether we have left */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (unsigned int i = 0;
	     i < TELLERS_POLLS_MAX && __atomic_load_n(&channel.head->tellers, __ATOMIC_SEQ_CST);
	     i++)
		leave_poll();
}

void leave_untold(struct thread *thread, int is_last)
{
	const uint64_t set = ACTION_BIT(SIGTRAP);
	const struct timespec none = { 0 };
	siginfo_t info;

	if (is_last)
		leave_await_tellers();
	while (sys_call(SYS_rt_sigtimedwait, (long)&set, (long)&info, (long)&none, ACTION_SET_BYTES,
			0, 0) == SIGTRAP)
		if (!leave_is_told(&info))
			pending_signals_add(thread, &info);
}

int leave_is_wanted(void)
{
	return leave_is_asked() ||
	       __atomic_load_n(&channel.head->native, __ATOMIC_SEQ_CST) == ENGINE_NATIVE_TRACED;
}

/* A call that may raise a signal for its own thread, or that the engine answers. None waits. */
static int is_short(uint64_t number)
{
	switch (number) {
	case SYS_kill:
	case SYS_tkill:
	case SYS_tgkill:
	case SYS_rt_sigqueueinfo:
	case SYS_rt_tgsigqueueinfo:
	case SYS_pidfd_send_signal:
	case SYS_rt_sigaction:
	case SYS_rt_sigprocmask:
	case SYS_sigaltstack:
		return 1;
	default:
		return 0;
	}
}

/* A thread in a call that may wait, or about to make one, checks before it continues. */
static int must_be_told(const struct thread *thread)
{
	return !__atomic_load_n(&thread->call_next, __ATOMIC_SEQ_CST) ||
	       is_short(__atomic_load_n(&thread->regs.gpr[0], __ATOMIC_RELAXED));
}

/*
 * action_leave() last: from then on the kernel itself enters the program's handlers, and on the
 * engine's signal stack where the thread has not left yet. By then the caller has blocked the
 * program's signals, and SIGTRAP is pending for the other threads. The kernel delivers SIGTRAP
 * before other signals, and reported() in signal.c blocks those until the thread leaves. A thread
 * in a call that may wait gets no SIGTRAP, which would interrupt the call.
 */
static void ask_all(long pid, uint64_t self)
{
	const uint64_t set = ~action_own;

	sys_call(SYS_rt_sigprocmask, SIG_BLOCK, (long)&set, 0, ACTION_SET_BYTES, 0, 0);
	for (struct thread *at = first; at; at = at->next_thread) {
		__atomic_store_n(&at->is_deferred, 1, __ATOMIC_SEQ_CST);
		if ((uint64_t)at != self && must_be_told(at))
			report(at, pid);
	}
	action_leave();
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
		ask_all(pid, self);
		DEBUG_TRACE("engine/leave", "threads are asked to leave: native %d",
			    channel.head->native);
	}
	lock_give(&lock);
}

static void tell_all(int has_calls)
{
	long pid = sys_call3(SYS_getpid, 0, 0, 0);
	uint64_t self;

	__asm__("mov %%gs:0, %0" : "=r"(self));
	lock_take(&lock);
	for (struct thread *at = first; at; at = at->next_thread)
		if ((uint64_t)at != self &&
		    (has_calls || !__atomic_load_n(&at->call_next, __ATOMIC_SEQ_CST)))
			report(at, pid);
	lock_give(&lock);
}

void leave_renew(void)
{
	tell_all(0);
}

void leave_together(int has_others)
{
	if (has_others || __atomic_load_n(&channel.head->leaving, __ATOMIC_SEQ_CST))
		__atomic_store_n(&is_together, 1, __ATOMIC_SEQ_CST);
	leave_ask();
	tell_all(1); /* also those in system calls, which leave_ask() lets leave behind them */
}

/*
 * The kernel's state for a restarted system call must not change, as by nanosleep(2): see attach.c.
 */
void leave_poll(void)
{
	struct timespec time = { 0, POLL_NS };

	sys_call(SYS_ppoll, 0, 0, (long)&time, 0, 0, 0);
}

/*
 * The others poll, count themselves, and return by rt_sigreturn(2). What the last one does next may
 * be a filter for all threads that kills at these calls. No one can count behind rt_sigreturn(2),
 * so some time more is for that.
 */
static void await_returns(void)
{
	for (unsigned int i = 0;
	     i < RETURN_POLLS_MAX && __atomic_load_n(&channel.head->leaving, __ATOMIC_SEQ_CST) > 1;
	     i++)
		leave_poll();
	for (unsigned int i = 0; i < RETURN_POLLS; i++)
		leave_poll();
}

void leave_wait(int is_last)
{
	if (is_last)
		__atomic_store_n(&is_over, 1, __ATOMIC_SEQ_CST);
	if (is_last && __atomic_load_n(&is_together, __ATOMIC_SEQ_CST))
		await_returns();
	for (unsigned int i = 0;
	     i < LEAVE_POLLS_MAX && __atomic_load_n(&is_together, __ATOMIC_SEQ_CST) &&
	     !__atomic_load_n(&is_over, __ATOMIC_SEQ_CST);
	     i++)
		leave_poll();
}

void leave(struct thread *thread, uint64_t pc)
{
	const stack_t none = { .ss_flags = SS_DISABLE };

	DEBUG_TRACE("engine/leave", "leaves at %x, process alone %d", pc, thread->is_process);
	if (!thread->is_process)
		leave_ask();
	/* A thread can't replace the signal stack that it is on. */
	sys_call3(SYS_sigaltstack, (long)&none, 0, 0);
	thread->regs.rip = pc;
	thread->is_leaving = 1;
	action_mask_set(~action_own);
	gate_signal();
}
