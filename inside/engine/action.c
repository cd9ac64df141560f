/* SPDX-License-Identifier: MIT */
#include "abi/watch.h"
#include "inside/engine/action.h"
#include "inside/engine/engine_lock.h"
#include "inside/engine/gate.h"
#include "inside/engine/sys.h"

#include <errno.h>

#define OWN (ACTION_BIT(SIGSEGV) | ACTION_BIT(SIGTRAP) | ACTION_BIT(SIGILL) | ACTION_BIT(SIGBUS))
#define FAULTS (OWN | ACTION_BIT(SIGFPE) | ACTION_BIT(SIGSYS))
/* Their end leaves a core, in which the program is to be seen, not we. */
#define CORES                                                                                      \
	(FAULTS | ACTION_BIT(SIGQUIT) | ACTION_BIT(SIGABRT) | ACTION_BIT(SIGXCPU) |                \
	 ACTION_BIT(SIGXFSZ))
#define FLAGS                                                                                      \
	(SA_NOCLDSTOP | SA_NOCLDWAIT | SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_NODEFER |         \
	 SA_RESETHAND | 0x800u /* SA_EXPOSE_TAGBITS */ | ACTION_RESTORER)

const uint64_t action_own = OWN;

static struct action actions[ACTION_SIGNALS];
static void (*ours)(int, void *, void *);
static uint32_t lock;
static int is_left;

static long kernel_set(int number, const struct action *action)
{
	return sys_call(SYS_rt_sigaction, number, (long)action, 0, ACTION_SET_BYTES, 0, 0);
}

/* Install in the kernel what the program asked for, or our handler instead. */
static long install(int number, const struct action *asked)
{
	uint64_t bit = ACTION_BIT(number);
	struct action action = {
		.handler = (uint64_t)ours,
		.flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | ACTION_RESTORER,
		.restorer = (uint64_t)gate_sigreturn,
		/*
		 * A copy from the program may fault. SIGTRAP asks to leave: it comes behind the
		 * handler, where the program is, and before any signal that the handler opens.
		 */
		.mask = ~OWN | ACTION_BIT(SIGTRAP),
	};

	if (is_left && !(FAULTS & bit))
		return kernel_set(number, asked);
	if (asked->handler <= (uint64_t)SIG_IGN && !(OWN & bit) &&
	    !(asked->handler == (uint64_t)SIG_DFL && CORES & bit))
		return kernel_set(number, asked);
	action.flags |= asked->flags & (SA_RESTART | SA_NOCLDSTOP | SA_NOCLDWAIT);
	if (asked->handler == (uint64_t)SIG_IGN) /* breaks no system call off */
		action.flags |= SA_RESTART;
	return kernel_set(number, &action);
}

void action_mask_set(uint64_t mask)
{
	sys_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, ACTION_SET_BYTES, 0, 0);
}

#define TRAP_PERF_CODE 6
#define HIT_FLAGS_AT 36u /* si_perf_flags, which libc's headers may not have */
#define HIT_IS_LATE 1u	 /* TRAP_PERF_FLAG_ASYNC */

int action_is_hit(const siginfo_t *info)
{
	return info->si_signo == SIGTRAP && info->si_code == TRAP_PERF_CODE;
}

int action_is_late_hit(const siginfo_t *info)
{
	return action_is_hit(info) &&
	       *(const uint32_t *)((const uint8_t *)info + HIT_FLAGS_AT) & HIT_IS_LATE;
}

static void hit_flag(siginfo_t *info, uint32_t flag)
{
	*(uint32_t *)((uint8_t *)info + HIT_FLAGS_AT) |= flag;
}

void action_hit_is_late(siginfo_t *info)
{
	hit_flag(info, HIT_IS_LATE);
}

void action_hit_is_ours(siginfo_t *info)
{
	hit_flag(info, WATCH_BY_ENGINE);
}

int action_is_fault(const siginfo_t *info)
{
	return info->si_code > 0 && !action_is_hit(info) && FAULTS & ACTION_BIT(info->si_signo);
}

enum action_default action_standard(int number)
{
	switch (number) {
	case SIGCHLD:
	case SIGCONT:
	case SIGURG:
	case SIGWINCH:
		return ACTION_NOTHING;
	case SIGSTOP:
	case SIGTSTP:
	case SIGTTIN:
	case SIGTTOU:
		return ACTION_STOPS;
	default:
		return ACTION_ENDS;
	}
}

int action_open(void (*handler)(int, void *, void *))
{
	ours = handler;
	for (int number = 1; number < ACTION_SIGNALS; number++) {
		long err;

		if (number == SIGKILL || number == SIGSTOP)
			continue;
		err = sys_call(SYS_rt_sigaction, number, 0, (long)&actions[number],
			       ACTION_SET_BYTES, 0, 0);
		if (!err)
			err = install(number, &actions[number]);
		if (err)
			return (int)err;
	}
	return 0;
}

long action_call(uint64_t number, uint64_t asked, uint64_t old, uint64_t set_bytes)
{
	struct action action, was;
	long err = 0;

	if (set_bytes != ACTION_SET_BYTES || !number || number >= ACTION_SIGNALS ||
	    (asked && (number == SIGKILL || number == SIGSTOP)))
		return -EINVAL;
	if (asked && gate_copy(&action, (const void *)asked, sizeof(action)))
		return -EFAULT;
	lock_take(&lock);
	was = actions[number];
	if (asked) {
		action.flags &= FLAGS;
		action.mask &= ~(ACTION_BIT(SIGKILL) | ACTION_BIT(SIGSTOP));
		err = install((int)number, &action);
		if (!err)
			actions[number] = action;
	}
	lock_give(&lock);
	if (!err && old && gate_copy((void *)old, &was, sizeof(was)))
		return -EFAULT;
	return err;
}

int action_reaps(void)
{
	return actions[SIGCHLD].handler == (uint64_t)SIG_IGN ||
	       actions[SIGCHLD].flags & SA_NOCLDWAIT;
}

struct action action_take(int number)
{
	struct action action;

	lock_take(&lock);
	action = actions[number];
	if (action.flags & SA_RESETHAND && action.handler > (uint64_t)SIG_IGN) {
		actions[number].handler = (uint64_t)SIG_DFL;
		install(number, &actions[number]);
	}
	lock_give(&lock);
	return action;
}

void action_default(int number)
{
	struct action standard = { 0 };

	kernel_set(number, &standard);
}

/* What the program has asked the kernel for by itself meanwhile, stays. */
static void restore(int number)
{
	struct action now;

	if (!sys_failed(
		    sys_call(SYS_rt_sigaction, number, 0, (long)&now, ACTION_SET_BYTES, 0, 0)) &&
	    now.handler == (uint64_t)ours)
		kernel_set(number, &actions[number]);
}

void action_restore(uint64_t set)
{
	for (int number = 1; number < ACTION_SIGNALS; number++)
		if (number != SIGKILL && number != SIGSTOP && set & ACTION_BIT(number))
			restore(number);
}

void action_leave(void)
{
	lock_take(&lock);
	is_left = 1;
	action_restore(~FAULTS);
	lock_give(&lock);
}

void action_exec(int is_over)
{
	for (int number = 1; number < ACTION_SIGNALS; number++) {
		if (!(OWN & ACTION_BIT(number)) || actions[number].handler != (uint64_t)SIG_IGN)
			continue;
		if (is_over)
			install(number, &actions[number]);
		else
			kernel_set(number, &actions[number]);
	}
}

void action_copy_begin(void)
{
	lock_take(&lock);
}

void action_copy_end(void)
{
	lock_give(&lock);
}

void action_reset(void)
{
	for (int number = 1; number < ACTION_SIGNALS; number++) {
		if (number == SIGKILL || number == SIGSTOP ||
		    actions[number].handler == (uint64_t)SIG_IGN)
			continue;
		actions[number] = (struct action){ 0 };
		install(number, &actions[number]);
	}
}

void action_clear(void)
{
	for (int number = 1; number < ACTION_SIGNALS; number++) {
		if (number == SIGKILL || number == SIGSTOP)
			continue;
		if (actions[number].handler == (uint64_t)SIG_IGN)
			kernel_set(number, &actions[number]);
		else
			action_default(number);
	}
}
