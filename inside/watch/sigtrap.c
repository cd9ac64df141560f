/* SPDX-License-Identifier: MIT */
#include "inside/watch/sigtrap.h"

#include "base/kernel.h"
#include "inside/detour/janitor.h"
#include "inside/runtime/heap.h"
#include "inside/runtime/seccomp_yield.h"
#include "inside/runtime/tasks.h"
#include "inside/watch/guard.h"
#include "inside/watch/masks.h"
#include "inside/watch/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <waymark/error.h>

#define SIGNALS 64
#define LOOKS 5
#define LOOK_PAUSE_NS 2000000
#define TRACER_PAUSE_NS 1000000
#define TRACER_PAUSE_MAX_NS 16000000
#define LEAVE_TRIES 20
#define LEAVE_PAUSE_NS 500000

static int is_taken; /* by watches */

/*
 * All signals blocked, as trap_lock() wants it; the control thread has them blocked but for
 * setxid's.
 */
static uint64_t enter(void)
{
	uint64_t all = ~UINT64_C(0), before = 0;

	syscall_raw(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)&before, sizeof all);
	trap_lock();
	return before;
}

static void leave(uint64_t before)
{
	trap_unlock();
	syscall_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before);
}

static void guards_begin(void)
{
	trap_program.pid = kernel_getpid();
	__atomic_store_n(&trap_program.is_guarded, 1, __ATOMIC_SEQ_CST);
}

/* The guards that are in place. */
static unsigned int guards_found(void)
{
	unsigned int found = 0;

	for (const struct detour *d = detour_first(); d; d = d->next) {
		if (d->is_armed)
			found |= d->record->flags & DETOUR_GUARDS;
	}
	return found;
}

static int install(void)
{
	struct trap_action ours, old = { 0 };
	int error = trap_sigaction(SIGTRAP, NULL, &old);

	if (error)
		return error;
	if (trap_program.is_installed)
		return trap_is_ours(&old) ? 0 : -WM_E_TRAP_REPLACED;
	if (old.handler == (uintptr_t)SIG_IGN)
		return -WM_E_TRAP_IGNORED;
	trap_action_make(&ours, &old);
	/* before: what comes at once must find it */
	trap_program.action = old;
	error = trap_sigaction(SIGTRAP, &ours, NULL);
	trap_program.is_installed = !error;
	return error;
}

/* Without these no thread can be stopped, as the guards need it. */
static int lacks_proc(void)
{
	static const char *const files[] = { "/proc/self/task", "/proc/thread-self/maps" };
	int fd = 0;

	for (unsigned int i = 0; i < sizeof files / sizeof files[0] && fd >= 0; i++) {
		fd = kernel_open(files[i], O_RDONLY | O_CLOEXEC);
		if (fd >= 0)
			kernel_close(fd);
	}
	return fd < 0 && (errno == ENOENT || errno == EACCES);
}

/* 0, or why no handler may be brought in. */
static int may_take(void)
{
	unsigned int guards = guards_found();

	if (lacks_proc())
		return -WM_E_NO_PROC;
	if (!(guards & DETOUR_GUARD_MASK) || !(guards & (DETOUR_GUARD_ACTION | DETOUR_GUARD_INNER)))
		return -WM_E_TRAP_GUARDS;
	return seccomp_yield_is_asked() || masks_any_filtered() ? -WM_E_TRAP_FILTER : 0;
}

/* As the guard does with those that are set from now on. */
static void unmask_handlers(void)
{
	for (int number = 1; number <= SIGNALS; number++) {
		struct trap_action action;

		if (number == SIGTRAP || trap_sigaction(number, NULL, &action) ||
		    action.handler <= (uintptr_t)SIG_IGN || !(action.mask & TRAP_SIGNAL_BIT))
			continue;
		action.mask &= ~TRAP_SIGNAL_BIT;
		if (!trap_sigaction(number, &action, NULL))
			trap_program.masked |= UINT64_C(1) << (number - 1);
	}
}

/* Who can't be stopped keeps it blocked: what it hits is missed, and counted so. */
static void unblock_threads(void)
{
	int blocks = masks_any_blocked();

	for (int looks = 0; blocks && looks < LOOKS && !janitor_unblock(); looks++) {
		blocks = masks_any_blocks();
		if (blocks)
			kernel_sleep_ns(LOOK_PAUSE_NS);
	}
}

int sigtrap_take(void)
{
	uint64_t before;
	int error = may_take();

	if (!error && !trap_spare_is_there()) {
		void *stacks = heap_alloc(TRAP_SPARE_BYTES);

		trap_spare_provide(stacks);
		error = stacks ? 0 : -ENOMEM;
	}
	if (error)
		return error;
	before = enter();
	error = install();
	if (!error)
		unmask_handlers();
	leave(before);
	if (!error && !is_taken)
		unblock_threads();
	is_taken |= !error;
	return error;
}

void sigtrap_restore(void)
{
	is_taken = 0;
}

/*
 * A tool that stops all threads for a moment is a tracer, too, from its PTRACE_SEIZE on, and this
 * thread may look before it is stopped itself. When it continues, that tracer has gone. A debugger
 * stays.
 */
static int tracer_stays(void)
{
	for (long pause_ns = TRACER_PAUSE_NS; tasks_is_traced(); pause_ns *= 2) {
		if (pause_ns > TRACER_PAUSE_MAX_NS)
			return 1;
		kernel_sleep_ns(pause_ns);
	}
	return 0;
}

int sigtrap_look(void)
{
	struct trap_action action;

	if (!is_taken)
		return 0;
	if (tracer_stays())
		return -WM_E_TRACED;
	if (trap_sigaction(SIGTRAP, NULL, &action) || !trap_is_ours(&action))
		return -WM_E_TRAP_REPLACED;
	return masks_any_filtered() ? -WM_E_TRAP_FILTER : 0;
}

/* As the program would have had it all along. */
static void restore(void)
{
	struct trap_action action;

	if (!trap_sigaction(SIGTRAP, NULL, &action) && trap_is_ours(&action))
		trap_sigaction(SIGTRAP, &trap_program.action, NULL);
	trap_program.is_installed = 0;
	for (int number = 1; number <= SIGNALS; number++) {
		if (!(trap_program.masked & UINT64_C(1) << (number - 1)) ||
		    trap_sigaction(number, NULL, &action))
			continue;
		action.mask |= TRAP_SIGNAL_BIT;
		trap_sigaction(number, &action, NULL);
	}
	trap_program.masked = 0;
}

static int guards_may_end(const struct text *text)
{
	uint64_t before;
	int error;

	if (!trap_program.is_installed)
		return 0;
	if (is_taken)
		return -EAGAIN;
	/*
	 * A thread may have hit a watch just before that went: its signal is pending or, where the
	 * thread was stopped with it, in hand, and the kernel chooses its handler late. A thread
	 * that stops once more has received it.
	 */
	for (int tries = 0; (error = janitor_look(text)) == -EAGAIN; tries++) {
		if (tries == LEAVE_TRIES)
			break;
		kernel_sleep_ns(LEAVE_PAUSE_NS);
	}
	if (error)
		return error;
	before = enter();
	restore();
	leave(before);
	return 0;
}

static void guards_end(void)
{
	/* what was prepared may be about to be stored, or another session's */
	if (!trap_program.is_installed && !guards_found())
		__atomic_store_n(&trap_program.is_guarded, 0, __ATOMIC_SEQ_CST);
}

void sigtrap_init(void)
{
	static const struct detour_guards guards = {
		.entry = guard_entry,
		.begin = guards_begin,
		.may_end = guards_may_end,
		.end = guards_end,
	};

	detour_guards = &guards;
}

void sigtrap_forked(void)
{
	trap_program.lock = 0;
	trap_program.pid = kernel_getpid();
	is_taken = 0; /* a watch's events are no child's */
}
