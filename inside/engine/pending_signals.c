/* SPDX-License-Identifier: MIT */
#include "inside/engine/action.h"
#include "inside/engine/leave.h"
#include "inside/engine/pending_signals.h"
#include "inside/engine/sys.h"

#define OWN_COUNT (THREAD_HELD - 1)
#define WAITERS_MAX 64u

static const uint8_t own[OWN_COUNT] = { SIGSEGV, SIGBUS, SIGILL, SIGTRAP };

/*
 * Sent to the process, and blocked by the program where the kernel has brought it: for whichever
 * thread asks first.
 */
enum shared_state {
	SHARED_NONE = 0,
	SHARED_CHANGES = 1,
	SHARED_WAITS = 2,
};

static struct {
	uint32_t state; /* enum shared_state */
	long pid;	/* a copy of the process has none of them */
	siginfo_t info;
} shared[OWN_COUNT];

/*
 * Threads in calls that wait for signals. The kernel blocks all signals there that the program
 * blocks.
 */
static struct {
	uint64_t who; /* pid and tid; 0: free. A copy of the process ignores other pids */
	uint64_t set;
} waiters[WAITERS_MAX];

/* Signals that were passed to waiters by tgkill(2), which loses their siginfo. */
static struct {
	uint64_t who; /* as above; PASSED_CHANGES */
	siginfo_t info;
} passed[WAITERS_MAX];

#define PASSED_CHANGES UINT64_MAX

/* The index in own[]; OWN_COUNT: the engine does not own the signal. */
static unsigned int own_of(int number)
{
	unsigned int i = 0;

	while (i < OWN_COUNT && own[i] != number)
		i++;
	return i;
}

static long pid_now(void)
{
	return sys_call3(SYS_getpid, 0, 0, 0);
}

static void send(uint32_t tid, siginfo_t *info)
{
	sys_call(SYS_rt_tgsigqueueinfo, pid_now(), tid, info->si_signo, (long)info, 0, 0);
}

/* ---- the process's ---- */

static int shared_is_there(unsigned int i)
{
	return __atomic_load_n(&shared[i].state, __ATOMIC_SEQ_CST) == SHARED_WAITS &&
	       shared[i].pid == pid_now();
}

static int shared_take(unsigned int i, siginfo_t *info)
{
	uint32_t was = SHARED_WAITS;

	if (!shared_is_there(i) ||
	    !__atomic_compare_exchange_n(&shared[i].state, &was, SHARED_CHANGES, 0,
					 __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		return 0;
	*info = shared[i].info;
	__atomic_store_n(&shared[i].state, SHARED_NONE, __ATOMIC_SEQ_CST);
	return 1;
}

/* A second one is nothing, as in the kernel. */
static void shared_add(unsigned int i, const siginfo_t *info)
{
	uint32_t was = SHARED_NONE;

	if (__atomic_load_n(&shared[i].state, __ATOMIC_SEQ_CST) == SHARED_WAITS &&
	    !shared_is_there(i))
		was = SHARED_WAITS;
	if (!__atomic_compare_exchange_n(&shared[i].state, &was, SHARED_CHANGES, 0,
					 __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		return;
	shared[i].pid = pid_now();
	shared[i].info = *info;
	__atomic_store_n(&shared[i].state, SHARED_WAITS, __ATOMIC_SEQ_CST);
}

static int is_here(uint64_t who)
{
	return who && who >> 32 == (uint64_t)pid_now();
}

/* Where a thread's is that it has not read yet; WAITERS_MAX: it has none. */
static unsigned int passed_to(uint64_t who, int number)
{
	unsigned int n = 0;

	while (n < WAITERS_MAX && (__atomic_load_n(&passed[n].who, __ATOMIC_SEQ_CST) != who ||
				   passed[n].info.si_signo != number))
		n++;
	return n;
}

/*
 * The kernel refuses a signal for another thread that claims to come from kill(2): so it comes from
 * tgkill(2), and the thread finds here what it was.
 */
static void pass(uint64_t who, siginfo_t *info)
{
	if (info->si_code < 0) {
		send((uint32_t)who, info);
		return;
	}
	for (unsigned int n = 0; n < WAITERS_MAX; n++) {
		uint64_t was = __atomic_load_n(&passed[n].who, __ATOMIC_RELAXED);

		if (is_here(was) || was == PASSED_CHANGES ||
		    !__atomic_compare_exchange_n(&passed[n].who, &was, PASSED_CHANGES, 0,
						 __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			continue;
		passed[n].info = *info;
		__atomic_store_n(&passed[n].who, who, __ATOMIC_SEQ_CST);
		break;
	}
	sys_call3(SYS_tgkill, pid_now(), (uint32_t)who, info->si_signo);
}

int pending_signals_was_passed(const struct thread *thread, siginfo_t *info)
{
	uint64_t who = (uint64_t)pid_now() << 32 | thread->tid;
	unsigned int n = passed_to(who, info->si_signo);

	if (info->si_code != SI_TKILL || n == WAITERS_MAX)
		return 0;
	*info = passed[n].info;
	__atomic_store_n(&passed[n].who, 0, __ATOMIC_SEQ_CST);
	return 1;
}

/*
 * Pass it to a waiter, if any: of a number each has one at most. pending_signals_wait() writes
 * waiters[] before it reads shared[], and we read waiters[] after shared[] was written, so one of
 * the two finds the other.
 */
static void shared_pass_on(unsigned int i)
{
	siginfo_t info;

	for (unsigned int n = 0; n < WAITERS_MAX; n++) {
		uint64_t who = __atomic_load_n(&waiters[n].who, __ATOMIC_SEQ_CST);

		if (!(waiters[n].set & ACTION_BIT(own[i])) || !is_here(who) ||
		    passed_to(who, own[i]) < WAITERS_MAX)
			continue;
		if (shared_take(i, &info))
			pass(who, &info);
		return;
	}
}

/* ---- a thread's ---- */

static int is_open(const struct thread *thread, int number)
{
	return !(action_own & thread->blocked & ACTION_BIT(number));
}

void pending_signals_add(struct thread *thread, const siginfo_t *info)
{
	unsigned int i = own_of(info->si_signo);
	siginfo_t *slot = &thread->held[i], copy = *info;

	if (action_is_hit(info) && !is_open(thread, SIGTRAP))
		action_hit_is_late(&copy);
	if (i < OWN_COUNT && !action_is_fault(info) && info->si_code != SI_TKILL &&
	    !action_is_hit(info) && thread->blocked & ACTION_BIT(info->si_signo)) {
		shared_add(i, info);
		shared_pass_on(i);
	} else if (!slot->si_signo) {
		*slot = copy;
	} else if (i == OWN_COUNT) {
		send(thread->tid, &copy); /* not to be lost, if it should ever be */
	}
}

static int is_due(const struct thread *thread, const siginfo_t *info)
{
	return info->si_signo && (action_is_fault(info) || is_open(thread, info->si_signo));
}

int pending_signals_take(struct thread *thread, siginfo_t *info)
{
	for (unsigned int i = 0; i < THREAD_HELD; i++) {
		if (!is_due(thread, &thread->held[i]))
			continue;
		*info = thread->held[i];
		thread->held[i].si_signo = 0;
		return 1;
	}
	for (unsigned int i = 0; i < OWN_COUNT; i++)
		if (is_open(thread, own[i]) && shared_take(i, info))
			return 1;
	return 0;
}

uint64_t pending_signals_set(const struct thread *thread)
{
	uint64_t set = 0;

	for (unsigned int i = 0; i < THREAD_HELD; i++)
		if (thread->held[i].si_signo)
			set |= ACTION_BIT(thread->held[i].si_signo);
	for (unsigned int i = 0; i < OWN_COUNT; i++)
		if (shared_is_there(i))
			set |= ACTION_BIT(own[i]);
	return set;
}

int pending_signals_is_due(const struct thread *thread)
{
	for (unsigned int i = 0; i < THREAD_HELD; i++)
		if (is_due(thread, &thread->held[i]))
			return 1;
	for (unsigned int i = 0; i < OWN_COUNT; i++)
		if (is_open(thread, own[i]) && shared_is_there(i))
			return 1;
	return 0;
}

/* ---- back to the kernel ---- */

static int give_own(struct thread *thread, unsigned int i)
{
	siginfo_t *slot = &thread->held[i], copy = *slot;

	slot->si_signo = 0;
	if (copy.si_signo)
		send(thread->tid, &copy);
	return copy.si_signo;
}

/*
 * The kernel takes a signal that claims to come from kill(2) from the process's first thread alone.
 * Another one can send that to itself, which `is_free` allows; else the signal comes from us.
 */
static void give_shared(const struct thread *thread, unsigned int i, int is_free)
{
	siginfo_t info;

	if (!shared_take(i, &info) ||
	    !sys_call3(SYS_rt_sigqueueinfo, pid_now(), info.si_signo, (long)&info))
		return;
	if (is_free)
		send(thread->tid, &info);
	else
		sys_call3(SYS_kill, pid_now(), info.si_signo, 0);
}

void pending_signals_wait(struct thread *thread, uint64_t set)
{
	uint64_t who = (uint64_t)pid_now() << 32 | thread->tid;
	siginfo_t info;

	for (unsigned int n = 0; n < WAITERS_MAX && !thread->waiter; n++) {
		uint64_t was = __atomic_load_n(&waiters[n].who, __ATOMIC_RELAXED);

		/*
		 * It may be seen with another's set for a moment: then it gets what it has blocked,
		 * and will hold.
		 */
		if (is_here(was) ||
		    !__atomic_compare_exchange_n(&waiters[n].who, &was, who, 0, __ATOMIC_SEQ_CST,
						 __ATOMIC_RELAXED))
			continue;
		__atomic_store_n(&waiters[n].set, set, __ATOMIC_SEQ_CST);
		thread->waiter = n + 1;
	}
	for (unsigned int i = 0; i < OWN_COUNT; i++) {
		int had = give_own(thread, i);

		if (leave_is_alone()) /* no other thread can get it */
			give_shared(thread, i, !had);
		else if (!had && set & ACTION_BIT(own[i]) && shared_take(i, &info))
			send(thread->tid, &info); /* one of a number: there is no room for more */
	}
}

void pending_signals_wait_over(struct thread *thread)
{
	if (!thread->waiter)
		return;
	__atomic_store_n(&waiters[thread->waiter - 1].set, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&waiters[thread->waiter - 1].who, 0, __ATOMIC_SEQ_CST);
	thread->waiter = 0;
}

void pending_signals_restore(struct thread *thread, int is_last)
{
	for (unsigned int i = 0; i < THREAD_HELD; i++)
		give_own(thread, i);
	for (unsigned int i = 0; i < OWN_COUNT && is_last; i++)
		give_shared(thread, i, 0);
}
