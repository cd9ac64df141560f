/* SPDX-License-Identifier: MIT */
#include "inside/watch/guard.h"

#include "abi/detour.h"
#include "arch/guard_entry.h"
#include "base/syscall.h"
#include "inside/runtime/reentrancy_guard.h"
#include "inside/runtime/seccomp_yield.h"

#include <waymark/error.h>

#include <errno.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#define MASK_BYTES 8
#define SIGNALS 64
#define LIBCS_OWN (UINT64_C(3) << (32 - 1)) /* SIGCANCEL and SIGSETXID, which are never blocked */
#define RESTORER 0x04000000u
#define ALL (~UINT64_C(0))
#define ERRNO_MAX 4095

/* What the kernel has of a set; the rest of it is libc's. */
static uint64_t *mask_of(sigset_t *set)
{
	return (uint64_t *)(void *)set;
}

static int is_guarded(void)
{
	return (int)__atomic_load_n(&trap_program.is_guarded, __ATOMIC_ACQUIRE);
}

int guard_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	uint64_t mask = set ? *(const uint64_t *)(const void *)set & ~LIBCS_OWN : 0;
	int has = (mask & TRAP_SIGNAL_BIT) != 0, was = trap_thread.is_blocked;
	int guarded = is_guarded();
	long error;

	if (guarded && how != SIG_UNBLOCK)
		mask &= ~TRAP_SIGNAL_BIT;
	error = syscall_raw(SYS_rt_sigprocmask, how, set ? (long)&mask : 0, (long)old, MASK_BYTES);
	if (error)
		return (int)-error;
	if (old && guarded && was)
		*mask_of(old) |= TRAP_SIGNAL_BIT;
	if (!set || (how != SIG_SETMASK && !has))
		return 0;
	trap_thread.is_blocked = (uint8_t)(guarded && has && how != SIG_UNBLOCK);
	if (!trap_thread.is_blocked && trap_thread.is_pending)
		trap_send_pending();
	return 0;
}

static void from_program(const struct sigaction *from, struct trap_action *to)
{
	to->handler = (uintptr_t)from->sa_handler;
	to->flags = (uint64_t)(int64_t)from->sa_flags | RESTORER;
	to->restorer = (uintptr_t)trap_restore;
	to->mask = *(const uint64_t *)(const void *)&from->sa_mask;
}

static void to_program(const struct trap_action *from, struct sigaction *to)
{
	to->sa_handler = (void (*)(int))from->handler; /* NOLINT: sa_sigaction is the same word */
	*mask_of(&to->sa_mask) = from->mask;
	to->sa_flags = (int)from->flags;
	to->sa_restorer = (void (*)(void))from->restorer;
}

/*
 * Its action is kept, and nothing changes but SA_RESTART. A child of vfork(2) has our memory, but
 * its own kernel actions, which we must not set.
 */
static void exchange_own(const struct trap_action *action, struct trap_action *old)
{
	int is_mine = syscall_raw(SYS_getpid, 0, 0, 0, 0) == trap_program.pid;
	struct trap_action ours;

	*old = trap_program.action;
	if (!action || !is_mine)
		return;
	trap_program.action = *action;
	trap_action_make(&ours, action);
	trap_sigaction(SIGTRAP, &ours, NULL);
}

/* The handler is to run with SIGTRAP blocked: that is remembered, and it runs without. */
static int exchange_other(int number, struct trap_action *action, struct trap_action *old)
{
	uint64_t bit = UINT64_C(1) << (number - 1);
	int has = action && action->mask & TRAP_SIGNAL_BIT, guarded = is_guarded(), error;

	if (guarded && action && number != SIGTRAP)
		action->mask &= ~TRAP_SIGNAL_BIT;
	error = trap_sigaction(number, action, old);
	if (error || number == SIGTRAP)
		return error;
	if (trap_program.masked & bit)
		old->mask |= TRAP_SIGNAL_BIT;
	if (action)
		trap_program.masked &= ~bit;
	if (guarded && has)
		trap_program.masked |= bit;
	return 0;
}

/* Under the lock, with every signal blocked: no handler may come and want it too. */
static int exchange(int number, struct trap_action *action, struct trap_action *old)
{
	uint64_t all = ALL, mask = 0;
	int error = 0;

	syscall_raw(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)&mask, MASK_BYTES);
	trap_lock();
	if (number == SIGTRAP && trap_program.is_installed)
		exchange_own(action, old);
	else
		error = exchange_other(number, action, old);
	trap_unlock();
	syscall_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, MASK_BYTES);
	return error;
}

static int change_action(int number, uint64_t refused, const struct sigaction *action,
			 struct sigaction *old)
{
	struct trap_action want, had = { 0 };
	struct reentrancy_guard guard;
	int error = -EINVAL;

	if (number >= 1 && number <= SIGNALS && !(refused & UINT64_C(1) << (number - 1))) {
		if (action)
			from_program(action, &want);
		error = exchange(number, action ? &want : NULL, &had);
	}
	if (!error && old)
		to_program(&had, old);
	if (!error)
		return 0;
	reentrancy_guard_enter(&guard); /* libc says where errno is */
	errno = -error;
	reentrancy_guard_leave(&guard);
	return -1;
}

int guard_sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	return change_action(number, LIBCS_OWN, action, old);
}

int guard_inner_sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	return change_action(number, 0, action, old);
}

long guard_failed(long error)
{
	struct reentrancy_guard guard;

	reentrancy_guard_enter(&guard);
	errno = (int)-error;
	reentrancy_guard_leave(&guard);
	return -1;
}

/* A filter that isn't there is but a question whether there could be one: EFAULT says yes. */
static int installs(long number, long a, long b, long c)
{
	if (number == SYS_prctl)
		return a == PR_SET_SECCOMP &&
		       (b == SECCOMP_MODE_STRICT || (b == SECCOMP_MODE_FILTER && c));
	return (int)a == SECCOMP_SET_MODE_STRICT ? !b && !c
						 : (int)a == SECCOMP_SET_MODE_FILTER && c;
}

long guard_filter(long number, long a, long b, long c, long d, long e)
{
	/* a child of vfork(2) has our memory, but its filter is its own */
	int is_mine = syscall_raw(SYS_getpid, 0, 0, 0, 0) == trap_program.pid;
	int yields = is_mine && installs((int)number, a, b, c);
	long result;

	if (yields)
		seccomp_yield_begin((int)number == SYS_seccomp && b & SECCOMP_FILTER_FLAG_TSYNC
					    ? -WM_E_SECCOMP
					    : 0);
	result = syscall_raw6(number, a, b, c, d, e, 0);
	if (yields)
		seccomp_yield_end();
	return result < 0 && result >= -ERRNO_MAX ? guard_failed(result) : result;
}

uint64_t guard_entry(uint8_t flags)
{
	return flags & DETOUR_GUARD_CALL    ? (uintptr_t)guard_call
	       : flags & DETOUR_GUARD_MASK  ? (uintptr_t)guard_sigmask
	       : flags & DETOUR_GUARD_INNER ? (uintptr_t)guard_inner_sigaction
					    : (uintptr_t)guard_sigaction;
}
