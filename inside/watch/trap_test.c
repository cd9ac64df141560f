/* SPDX-License-Identifier: MIT */
/* What the target's own SIGTRAP is while there is a watch, and which targets can have none. */
#include "inside/unwind/unwind.h"
#include "inside/watch/testing/fixture.h"

#include "base/syscall.h"
#include "base/testing/await.h"
#include "inside/watch/guard.h"
#include "inside/watch/masks.h"
#include "inside/watch/sigtrap.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIBCS_FIRST 32 /* of the signals that are libc's own */

static int stop_all;
static volatile uint64_t calls;
static uint64_t word;

/* The kernel's event is the tool's: the agent takes a watch without it. */
static int add(uint32_t number)
{
	struct control_watch about = sample_about(number, &word, 8);

	return sample_add(&about);
}

static uint32_t end(void)
{
	watch_release(TRIAL_LANE, 0);
	return trial_let_go();
}

static struct trap_action action_now(int number)
{
	struct trap_action action;

	cr_assert_eq(trap_sigaction(number, NULL, &action), 0);
	return action;
}

static int is_installed(void)
{
	struct trap_action action = action_now(SIGTRAP);

	return trap_is_ours(&action);
}

static void on_signal(int number)
{
	(void)number;
	calls++;
}

/* ---- refusals ---- */

Test(trap, both_guards_are_needed)
{
	trial_take_runner_for_keeper();
	unwind_init();
	watch_init();
	trial_begin();
	sample_guard(DETOUR_GUARD_MASK);
	cr_assert_eq(add(0), -WM_E_TRAP_GUARDS);
	cr_assert_eq(trial_let_go(), 0);
	sample_guard(DETOUR_GUARD_ACTION);
	cr_assert_eq(add(0), -WM_E_TRAP_GUARDS);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_not(is_installed());
	cr_assert_not(trap_program.is_guarded);
}

/* Past libc: what is there is not ours to call, nor to replace. */
Test(trap, another_action_is_left_alone)
{
	struct trap_action theirs = { .handler = (uintptr_t)SIG_IGN };

	sample_begin();
	cr_assert_eq(add(0), 0);
	cr_assert_eq(sigtrap_look(), 0);
	cr_assert_eq(trap_sigaction(SIGTRAP, &theirs, NULL), 0);
	cr_assert_eq(sigtrap_look(), -WM_E_TRAP_REPLACED);
	cr_assert_eq(add(1), -WM_E_TRAP_REPLACED);
	cr_assert_eq(end(), 0);
	cr_assert_eq(action_now(SIGTRAP).handler, (uintptr_t)SIG_IGN);
}

static int is_blocked;

static void *block(void *unused)
{
	uint64_t mask = TRAP_SIGNAL_BIT;

	syscall_raw(SYS_rt_sigprocmask, SIG_BLOCK, (long)&mask, 0, sizeof mask);
	trial_tell(&is_blocked);
	trial_stay(&stop_all);
	return unused;
}

static pthread_t start_blocker(void)
{
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, block, NULL), 0);
	trial_await(&is_blocked);
	return thread;
}

static void end_blocker(pthread_t thread)
{
	trial_tell(&stop_all);
	pthread_join(thread, NULL);
}

static void *filter(void *unused)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { .len = 1, .filter = &allow };

	if (!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	    !syscall_raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program, 0))
		__atomic_store_n(&is_blocked, 1, __ATOMIC_RELEASE);
	else
		__atomic_store_n(&is_blocked, -1, __ATOMIC_RELEASE);
	trial_stay(&stop_all);
	return unused;
}

Test(trap, a_thread_with_a_filter_of_its_own_is_refused, .timeout = 60)
{
	pthread_t thread;

	sample_begin();
	cr_assert_eq(pthread_create(&thread, NULL, filter, NULL), 0);
	trial_await(&is_blocked);
	if (is_blocked < 0)
		cr_skip_test("no seccomp filters here");
	cr_assert_eq(add(0), -WM_E_TRAP_FILTER);
	cr_assert_not(is_installed());
	end_blocker(thread);
}

Test(trap, a_tracer_that_comes_later_is_noticed, .timeout = 60)
{
	int status, tid = gettid(), ready[2];
	pid_t tracer;
	char byte;

	sample_begin();
	cr_assert_eq(add(0), 0);
	cr_assert_eq(pipe(ready), 0);
	tracer = fork();
	if (!tracer) {
		byte = ptrace(PTRACE_SEIZE, tid, NULL, NULL) ? 'n' : 'y';
		if (write(ready[1], &byte, 1) == 1)
			sleep(60);
		_exit(0);
	}
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	if (byte == 'y')
		cr_assert_eq(sigtrap_look(), -WM_E_TRACED);
	kill(tracer, SIGKILL);
	cr_assert_eq(waitpid(tracer, &status, 0), tracer);
	if (byte != 'y')
		cr_skip_test("no child may trace us here");
	cr_assert_eq(sigtrap_look(), 0);
	cr_assert_eq(end(), 0);
}

/* ---- masks ---- */

Test(trap, a_thread_that_blocks_it_does_not_while_there_is_a_watch, .timeout = 60)
{
	pthread_t thread;

	sample_begin();
	thread = start_blocker();
	cr_assert(masks_any_blocks());
	cr_assert_eq(add(0), 0);
	cr_assert_not(masks_any_blocks());
	cr_assert(AWAIT(!end()));
	cr_assert(masks_any_blocks(), "its mask is as it was");
	end_blocker(thread);
}

/* ---- guards ---- */

static void *use_mask(void *unused)
{
	sigset_t set, old;
	uint64_t mask = 0;

	sigfillset(&set);
	cr_assert_eq(guard_sigmask(SIG_SETMASK, &set, &old), 0);
	cr_assert_not(sigismember(&old, SIGTRAP));
	syscall_raw(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)&mask, sizeof mask);
	cr_assert_eq(mask & TRAP_SIGNAL_BIT, 0, "the kernel would miss hits");
	cr_assert_eq(guard_sigmask(SIG_BLOCK, NULL, &old), 0);
	cr_assert(sigismember(&old, SIGTRAP));
	cr_assert(sigismember(&old, SIGUSR1));
	syscall_raw(SYS_tgkill, getpid(), gettid(), SIGTRAP, 0);
	cr_assert_eq(calls, 0, "kept back");
	sigemptyset(&set);
	cr_assert_eq(guard_sigmask(SIG_SETMASK, &set, &old), 0);
	cr_assert_eq(calls, 1, "and here it is");
	cr_assert_eq(guard_sigmask(77, &set, NULL), EINVAL);
	return unused;
}

Test(trap, guards_say_what_libc_would_say)
{
	struct sigaction action = { .sa_handler = on_signal }, old;
	pthread_t thread;

	sample_begin();
	cr_assert_eq(add(0), 0);
	cr_assert_eq(guard_sigaction(SIGTRAP, &action, &old), 0);
	cr_assert_eq(old.sa_handler, SIG_DFL);
	cr_assert_eq(guard_sigaction(SIGTRAP, NULL, &old), 0);
	cr_assert_eq(old.sa_handler, on_signal);
	cr_assert_eq(trap_program.lock, 0);
	cr_assert(is_installed());
	cr_assert_eq(pthread_create(&thread, NULL, use_mask, NULL), 0);
	pthread_join(thread, NULL);
	sigfillset(&action.sa_mask);
	cr_assert_eq(guard_sigaction(SIGUSR1, &action, NULL), 0);
	cr_assert_eq(guard_sigaction(SIGUSR1, NULL, &old), 0);
	cr_assert(sigismember(&old.sa_mask, SIGTRAP));
	cr_assert_eq(action_now(SIGUSR1).mask & TRAP_SIGNAL_BIT, 0);
	cr_assert_eq(guard_sigaction(99, NULL, &old), -1);
	cr_assert_eq(errno, EINVAL);
	cr_assert_eq(guard_sigaction(LIBCS_FIRST, NULL, &old), -1, "libc's alone");
	cr_assert_eq(errno, EINVAL);
	cr_assert_eq(guard_inner_sigaction(LIBCS_FIRST, NULL, &old), 0);
	cr_assert_eq(end(), 0);
	cr_assert_eq(action_now(SIGTRAP).handler, (uintptr_t)on_signal);
	cr_assert_neq(action_now(SIGUSR1).mask & TRAP_SIGNAL_BIT, 0);
	/* and nothing of it is left when they come again */
	sigemptyset(&action.sa_mask);
	cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
	sample_guard(DETOUR_GUARD_MASK);
	sample_guard(DETOUR_GUARD_ACTION);
	cr_assert_eq(add(0), 0);
	cr_assert_eq(guard_sigaction(SIGUSR1, NULL, &old), 0);
	cr_assert_not(sigismember(&old.sa_mask, SIGTRAP));
	cr_assert_eq(guard_sigaction(SIGTRAP, NULL, &old), 0);
	cr_assert_eq(old.sa_handler, on_signal, "the program's own");
	cr_assert_eq(end(), 0);
}

/* The kernel looks at our action to decide whether a system call starts again. */
Test(trap, system_calls_are_begun_anew_where_the_program_has_it_so)
{
	struct sigaction action = { .sa_handler = on_signal };

	sample_begin();
	cr_assert_eq(add(0), 0);
	cr_assert_neq(action_now(SIGTRAP).flags & SA_RESTART, 0, "there is nothing to report");
	cr_assert_eq(guard_inner_sigaction(SIGTRAP, &action, NULL), 0);
	cr_assert_eq(action_now(SIGTRAP).flags & SA_RESTART, 0);
	action.sa_flags = SA_RESTART;
	cr_assert_eq(guard_sigaction(SIGTRAP, &action, NULL), 0);
	cr_assert_neq(action_now(SIGTRAP).flags & SA_RESTART, 0);
	cr_assert_eq(end(), 0);
	action.sa_flags = 0;
	cr_assert_eq(sigaction(SIGTRAP, &action, NULL), 0);
	sample_guard(DETOUR_GUARD_MASK);
	sample_guard(DETOUR_GUARD_ACTION);
	cr_assert_eq(add(0), 0);
	cr_assert_eq(action_now(SIGTRAP).flags & SA_RESTART, 0, "as it was before");
	cr_assert_eq(end(), 0);
}

/* ---- the handler, called as the kernel would ---- */

typedef void trap_handler(int number, siginfo_t *info, void *context);

/* Where the thread continues. */
static uintptr_t handle(int code, uintptr_t pc)
{
	siginfo_t info = { .si_signo = SIGTRAP, .si_code = code };
	ucontext_t context = { 0 };
	uint64_t all = ~UINT64_C(0), before;
	trap_handler *handler = (trap_handler *)action_now(SIGTRAP)
					.handler; /* NOLINT: as the kernel has it */

	syscall_raw(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)&before, sizeof all);
	trap_set_pc(&context, pc);
	handler(SIGTRAP, &info, &context);
	syscall_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before);
	return trap_pc(&context);
}

Test(trap, what_is_no_hit_is_the_targets)
{
	const uintptr_t behind = (uintptr_t)trial_victim + TRAP_BYTES;
	struct sigaction action = { .sa_handler = on_signal };

	sample_begin();
	cr_assert_eq(add(0), 0);
	cr_assert_eq(guard_sigaction(SIGTRAP, &action, NULL), 0);
	cr_assert_eq(action_now(SIGTRAP).mask & TRAP_SIGNAL_BIT, 0,
		     "that looks as if it were blocked");
	cr_assert_neq(action_now(SIGTRAP).mask & 1u << (SIGALRM - 1), 0);
	cr_assert_eq(action_now(SIGTRAP).flags & SA_NODEFER, 0,
		     "one frame on another, without end");
	/* an int3 of its own, one that was sent, a single step */
	cr_assert_eq(handle(SI_KERNEL, behind), behind);
	cr_assert_eq(handle(SI_TKILL, behind), behind);
	cr_assert_eq(handle(TRAP_TRACE, behind), behind);
	cr_assert_eq(calls, 3);
	cr_assert_eq(trap_program.lock, 0, "who comes next need not wait");
	cr_assert_eq(end(), 0);
}
