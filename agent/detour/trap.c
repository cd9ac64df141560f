/* SPDX-License-Identifier: MIT */
/*
 * The handler runs on the stack that the thread is on: a signal stack may have room for the one signal that
 * the program made it for. SIGTRAP is not blocked in it, lest it look as if the program blocked it; all
 * others are. It is compiled as the hit path is.
 */
#define _GNU_SOURCE
#include "agent/detour/trap.h"

#include "agent/watch/take.h"
#include "base/syscall.h"

#include <waymark/error.h>

#include <errno.h>

#define SLOTS 8192u
#define GONE 1u /* an address that no code has */
#define SPINS_MAX (1u << 24)
#define MASK_BYTES 8
#define RESTORER 0x04000000u /* SA_RESTORER */
#define ALL (~UINT64_C(0))

struct trap {
	uintptr_t address; /* 0: none, from here on none either */
	uintptr_t code;
	uint32_t bytes; /* of the instruction */
	uint32_t is_live;
};

static struct trap traps[SLOTS];
static uint32_t trap_count;

struct trap_program trap_program;
__thread struct trap_thread trap_thread __attribute__((tls_model("initial-exec")));

/* ---- the table ---- */

static uint32_t slot_of(uintptr_t address)
{
	return (uint32_t)((uint64_t)address * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (SLOTS - 1);
}

static struct trap *find(uintptr_t address)
{
	uint32_t at = slot_of(address);

	for (;;) {
		uintptr_t there = __atomic_load_n(&traps[at].address, __ATOMIC_ACQUIRE);

		if (!there)
			return NULL;
		if (there == address)
			return &traps[at];
		at = (at + 1) & (SLOTS - 1);
	}
}

int trap_place(uintptr_t address, uintptr_t code, unsigned int bytes)
{
	struct trap *trap = find(address);
	uint32_t at = slot_of(address);

	if (!trap && trap_count == TRAP_PLACES_MAX)
		return -WM_E_DETOUR_MEMORY;
	if (!trap) {
		while (traps[at].address)
			at = (at + 1) & (SLOTS - 1);
		trap = &traps[at];
		trap_count++;
	}
	/* whole before it is found */
	__atomic_store_n(&trap->code, code, __ATOMIC_RELEASE);
	trap->bytes = bytes;
	__atomic_store_n(&trap->address, address, __ATOMIC_RELEASE);
	return 0;
}

void trap_set_live(uintptr_t address, int is_live)
{
	struct trap *trap = find(address);

	if (trap)
		__atomic_store_n(&trap->is_live, (uint32_t)is_live, __ATOMIC_RELEASE);
}

void trap_forget(uintptr_t address)
{
	struct trap *trap = find(address);

	if (trap)
		__atomic_store_n(&trap->address, GONE, __ATOMIC_RELEASE);
}

/* ---- the program's own ---- */

void trap_lock(void)
{
	for (uint32_t spins = 0; __atomic_exchange_n(&trap_program.lock, 1, __ATOMIC_ACQUIRE);
	     spins++) {
		if (spins == SPINS_MAX)
			return;
		__builtin_ia32_pause();
	}
}

void trap_unlock(void)
{
	__atomic_store_n(&trap_program.lock, 0, __ATOMIC_RELEASE);
}

int trap_sigaction(int number, const struct trap_action *action, struct trap_action *old)
{
	return (int)syscall_raw(SYS_rt_sigaction, number, (long)action, (long)old, MASK_BYTES);
}

static void set_mask(uint64_t mask)
{
	syscall_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, MASK_BYTES);
}

/* The first word of a context's mask is all that the kernel has of it. */
static uint64_t *mask_of(ucontext_t *context)
{
	return (uint64_t *)(void *)&context->uc_sigmask;
}

/* Once more, to this thread: it comes when SIGTRAP is not blocked. */
static void send_again(siginfo_t *info)
{
	long pid = syscall_raw(SYS_getpid, 0, 0, 0, 0), tid = syscall_raw(SYS_gettid, 0, 0, 0, 0);

	/* but for the first thread's own the kernel lets nobody say that it was itself who sent it */
	if (syscall_raw(SYS_rt_tgsigqueueinfo, pid, tid, SIGTRAP, (long)info))
		syscall_raw(SYS_tgkill, pid, tid, SIGTRAP, 0);
}

void trap_send_pending(void)
{
	siginfo_t info = trap_thread.info;

	trap_thread.is_pending = 0;
	send_again(&info);
}

/* By the default action, at the instruction where it would have died without us. */
static void die(siginfo_t *info, ucontext_t *context)
{
	struct trap_action action = { 0 };
	uintptr_t pc = trap_pc(context);

	trap_sigaction(SIGTRAP, &action, NULL);
	*mask_of(context) &= ~TRAP_SIGNAL_BIT;
	if (info->si_code == SI_KERNEL && ((const volatile uint8_t *)pc)[-1] == TRAP_OPCODE)
		trap_set_pc(context, pc - TRAP_BYTES); /* the kernel does it all once more */
	else
		send_again(info);
}

/* The end of the signal stack, if the handler is to run there and the thread is not on it. */
static uintptr_t signal_stack(const struct trap_action *action, const ucontext_t *context)
{
	uintptr_t start = (uintptr_t)context->uc_stack.ss_sp, stack = trap_stack(context);
	size_t bytes = context->uc_stack.ss_size;

	if (!(action->flags & SA_ONSTACK) || !bytes || context->uc_stack.ss_flags & SS_DISABLE ||
	    stack - start < bytes)
		return 0;
	return start + bytes;
}

static void call_handler(const struct trap_action *action, siginfo_t *info, ucontext_t *context)
{
	uint64_t mask = *mask_of(context) | action->mask;

	if (!(action->flags & SA_NODEFER))
		mask |= TRAP_SIGNAL_BIT;
	trap_thread.is_blocked = (mask & TRAP_SIGNAL_BIT) != 0;
	set_mask(mask & ~TRAP_SIGNAL_BIT);
	trap_call(action->handler, SIGTRAP, info, context, signal_stack(action, context));
	set_mask(ALL);
	/* the handler may have changed what its return restores */
	trap_thread.is_blocked = (*mask_of(context) & TRAP_SIGNAL_BIT) != 0;
	*mask_of(context) &= ~TRAP_SIGNAL_BIT;
	if (trap_thread.is_pending && !trap_thread.is_blocked)
		trap_send_pending();
}

/* What is none of ours. Whoever is forced upon a thread can't be blocked or ignored (signal(7)). */
static void pass_on(siginfo_t *info, ucontext_t *context)
{
	int is_forced = info->si_code > 0;
	struct trap_action action;

	set_mask(ALL);
	if (trap_thread.is_blocked && !is_forced) {
		if (!trap_thread.is_pending)
			trap_thread.info = *info;
		trap_thread.is_pending = 1;
		return;
	}
	trap_lock();
	action = trap_program.action;
	if (action.flags & SA_RESETHAND && !trap_thread.is_blocked)
		trap_program.action.handler = (uintptr_t)SIG_DFL;
	trap_unlock();
	if (action.handler == (uintptr_t)SIG_IGN && !is_forced)
		return;
	if (trap_thread.is_blocked || action.handler == (uintptr_t)SIG_IGN)
		die(info, context);
	else if (action.handler != (uintptr_t)SIG_DFL)
		call_handler(&action, info, context);
	else if (is_forced || syscall_raw(SYS_getpid, 0, 0, 0, 0) != 1)
		die(info,
		    context); /* what a container's first process does not handle is dropped */
}

/* ---- the handler ---- */

enum taken {
	TAKEN_NOT,
	TAKEN,
	TAKEN_BESIDE, /* this signal is another's, but one of ours was lost in it */
};

/* Returns whether the thread was at a breakpoint of ours; then it has been sent on. */
static enum taken take_breakpoint(const siginfo_t *info, ucontext_t *context)
{
	uintptr_t address = trap_pc(context) - TRAP_BYTES;
	const struct trap *trap = find(address);

	if (!trap)
		return TAKEN_NOT;
	/*
	 * One that was sent just before swallows that of the breakpoint, as standard signals do: then the
	 * thread stands behind the opcode all the same, in the middle of an instruction.
	 */
	if (info->si_code != SI_KERNEL && (info->si_code > 0 || trap->bytes == TRAP_BYTES))
		return TAKEN_NOT;
	if (*(const volatile uint8_t *)address != TRAP_OPCODE) {
		/* gone since it was met; the instruction is there again */
		trap_set_pc(context, address);
		return info->si_code == SI_KERNEL ? TAKEN : TAKEN_BESIDE;
	}
	if (!__atomic_load_n(&trap->is_live, __ATOMIC_ACQUIRE))
		return TAKEN_NOT; /* the program's own, put there since */
	trap_set_pc(context, __atomic_load_n(&trap->code, __ATOMIC_ACQUIRE));
	return info->si_code == SI_KERNEL ? TAKEN : TAKEN_BESIDE;
}

static enum taken take_watch(const siginfo_t *info, ucontext_t *context)
{
	return take_signal(info, context) ? TAKEN : TAKEN_NOT;
}

/* Who may take a SIGTRAP, asked in turn; one that nobody takes is the program's. */
static enum taken (*const takers[])(const siginfo_t *, ucontext_t *) = { take_watch,
									 take_breakpoint };

static void handle(int number, siginfo_t *info, void *data)
{
	enum taken taken = TAKEN_NOT;

	(void)number;
	for (size_t i = 0; i < sizeof takers / sizeof takers[0] && taken == TAKEN_NOT; i++)
		taken = takers[i](info, data);
	if (taken != TAKEN)
		pass_on(info, data);
}

void trap_action_make(struct trap_action *action, const struct trap_action *program)
{
	/* what is dropped, or kept back, interrupts no system call */
	int is_handled = program->handler > (uintptr_t)SIG_IGN;
	uint64_t restart = is_handled ? program->flags & SA_RESTART : SA_RESTART;

	*action = (struct trap_action){
		.handler = (uintptr_t)handle,
		.flags = SA_SIGINFO | SA_NODEFER | RESTORER | restart,
		.restorer = (uintptr_t)trap_restore,
		.mask = ~TRAP_SIGNAL_BIT,
	};
}

int trap_is_ours(const struct trap_action *action)
{
	return action->handler == (uintptr_t)handle;
}
