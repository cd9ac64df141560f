/* SPDX-License-Identifier: MIT */
/*
 * The handler runs on the stack that the thread is on: a signal stack may have room for the one
 * signal that the program made it for. The kernel blocks all signals in it, SIGTRAP too: another
 * process may send it so fast that frames would fill the stack. Where something is watched on that
 * stack, it lets SIGTRAP in: then a frame of one more comes at a time. It is compiled as the hit
 * path is.
 */
#include "inside/watch/trap.h"

#include "arch/trap_frame.h"
#include "base/syscall.h"
#include "inside/watch/take.h"
#include "inside/watch/watch_entry.h"

#define SPINS_MAX (1u << 24)
#define MASK_BYTES 8
#define OWN_STACK_BYTES 65536u
#define RESTORER 0x04000000u /* SA_RESTORER */
#define ALL (~UINT64_C(0))

struct trap_program trap_program;

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

	/*
	 * except in the first thread, the kernel lets no thread claim that it sent the signal to
	 * itself
	 */
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

/* The program gets it later. It merges with a signal that is pending already, as in the kernel. */
static void keep(const siginfo_t *info)
{
	if (!trap_thread.is_pending)
		trap_thread.info = *info;
	trap_thread.is_pending = 1;
}

/*
 * A signal that is not ours. The kernel's own signals for a thread can't be blocked or ignored
 * (signal(7)).
 */
static void pass_on(siginfo_t *info, ucontext_t *context)
{
	int is_forced = info->si_code > 0;
	struct trap_action action;

	if (trap_thread.is_blocked && !is_forced) {
		keep(info);
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

/*
 * ---- stacks of our own for hits on an alternate signal stack ----
 *
 * Such a stack often has room for one signal's frame and for little more (SIGSTKSZ is 8192; a frame
 * has 3.4 kB with AVX-512). The kernel puts the frame of our signal there; the handler's work runs
 * on a stack of this pool. All signals are blocked meanwhile, but SIGTRAP where a watch may be of a
 * stack. So no other handler starts at the top of the alternate stack.
 */

#define STACK_BYTES 32768u
#define STACKS (TRAP_SPARE_BYTES / STACK_BYTES)
#define ABOVE_BYTES 256u /* readers copy a payload by words, past its end */

static uintptr_t stacks; /* the first; 0: before the first watch */
static uint32_t in_use;	 /* a bit each */

int trap_spare_is_there(void)
{
	return stacks != 0;
}

void trap_spare_provide(void *start)
{
	__atomic_store_n(&stacks, (uintptr_t)start, __ATOMIC_RELEASE);
}

/* Whether what the context interrupted runs on the thread's alternate stack. */
static int spare_is_wanted(const ucontext_t *context)
{
	const stack_t *alternate = &context->uc_stack;

	return alternate->ss_size && !(alternate->ss_flags & SS_DISABLE) &&
	       trap_stack(context) - (uintptr_t)alternate->ss_sp < alternate->ss_size;
}

/* The end of a stack that is the caller's until spare_give(); 0: all are in use. */
static uintptr_t spare_take(void)
{
	for (unsigned int i = 0; stacks && i < STACKS; i++) {
		uint32_t bit = 1u << i;

		/* pairs with spare_give()'s release */
		if (!(__atomic_load_n(&in_use, __ATOMIC_RELAXED) & bit) &&
		    !(__atomic_fetch_or(&in_use, bit, __ATOMIC_ACQUIRE) & bit))
			return stacks + (i + 1) * STACK_BYTES - ABOVE_BYTES;
	}
	return 0;
}

static void spare_give(uintptr_t end)
{
	__atomic_fetch_and(&in_use, ~(1u << (end - stacks) / STACK_BYTES), __ATOMIC_RELEASE);
}

static int spare_has(uintptr_t address)
{
	return stacks && address - stacks < TRAP_SPARE_BYTES;
}

void trap_spare_forked(void)
{
	in_use = 0;
}

/* ---- the handler ---- */

/* A signal, for a handler on one of our stacks. */
struct moved {
	siginfo_t *info;
	ucontext_t *context;
	uintptr_t sp; /* of the stack that it came on */
	int is_ours;
};

static void take_moved(int number, siginfo_t *unused, struct moved *moved)
{
	(void)number, (void)unused;
	moved->is_ours = take_signal(moved->info, moved->context, moved->sp);
}

int trap_is_nested(uintptr_t sp)
{
	uintptr_t open = trap_thread.open_sp;

	/* clone(2) may have given a thread another one's book, and a stack elsewhere */
	return open && ((open > sp && open - sp < OWN_STACK_BYTES) || spare_has(sp));
}

/* Is something watched where the handler writes, on the stack from `sp` down? */
static int may_hit_itself(uintptr_t sp)
{
	for (uint64_t live = __atomic_load_n(&watch_live, __ATOMIC_ACQUIRE); live;
	     live &= live - 1) {
		const struct control_watch *about = &watch_entries[__builtin_ctzll(live)].about;

		if (about->flags & WATCH_MOVES || sp - about->address < OWN_STACK_BYTES)
			return 1;
	}
	return 0;
}

static void handle(int number, siginfo_t *info, void *data)
{
	uintptr_t sp = (uintptr_t)__builtin_frame_address(0), stack;
	int is_nested = trap_is_nested(sp), is_open = !is_nested && may_hit_itself(sp);
	struct moved moved = { info, data, sp, 0 };

	(void)number;
	/*
	 * What the handler writes there is hit at once, and counts as its own. Held back, it would
	 * come as the program's, again and again. Only then: a filter that the program has set past
	 * libc may kill it for this call.
	 */
	if (is_open) {
		trap_thread.open_sp = sp;
		set_mask(ALL & ~TRAP_SIGNAL_BIT);
	}
	stack = spare_is_wanted(data) ? spare_take() : 0;
	if (stack) {
		trap_call((uintptr_t)take_moved, 0, NULL, (ucontext_t *)(void *)&moved, stack);
		spare_give(stack);
	} else {
		take_moved(0, NULL, &moved);
	}
	if (is_open) {
		if (!moved.is_ours)
			set_mask(ALL);
		trap_thread.open_sp = 0;
	}
	/*
	 * the program's handler does not run within a hit: it gets what came once the hit is over
	 */
	if (is_nested && !moved.is_ours)
		keep(info);
	else if (!moved.is_ours)
		pass_on(info, data);
	else if (!is_nested && trap_thread.is_pending && !trap_thread.is_blocked)
		trap_send_pending();
}

void trap_action_make(struct trap_action *action, const struct trap_action *program)
{
	/* what is dropped, or kept back, interrupts no system call */
	int is_handled = program->handler > (uintptr_t)SIG_IGN;
	uint64_t restart = is_handled ? program->flags & SA_RESTART : SA_RESTART;

	*action = (struct trap_action){
		.handler = (uintptr_t)handle,
		.flags = SA_SIGINFO | RESTORER | restart,
		.restorer = (uintptr_t)trap_restore,
		.mask = ~TRAP_SIGNAL_BIT,
	};
}

int trap_is_ours(const struct trap_action *action)
{
	return action->handler == (uintptr_t)handle;
}
