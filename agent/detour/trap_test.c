/* SPDX-License-Identifier: MIT */
/* Breakpoints that come and go, where they are refused, and what the program's own signals are meanwhile. */
#define _GNU_SOURCE
#include "agent/detour/trial.h"

#include "agent/detour/breakpoint.h"
#include "agent/detour/guard.h"
#include "agent/marker/bed.h"
#include "agent/store/store.h"
#include "base/testing/await.h"
#include "base/syscall.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS 60
#define OTHER_LANE 1u
#define LIBCS_FIRST 32 /* of the signals that are libc's own */

static int stop_all;
static uint64_t calls;
static union trial_record record, mask_record, action_record;

/* Records of guards, over functions that nobody calls here: the guards themselves are called by name. */
static void compose(void)
{
	struct trial_wish wish = trial_victim_wish;

	wish.span = wish.steps[0];
	wish.step_count = 1;
	trial_compose(&record, &wish);
	record.head.tier = TIER_BREAKPOINT;
	wish = trial_tail_wish;
	wish.flags = DETOUR_GUARD_MASK;
	trial_compose(&mask_record, &wish);
	wish = trial_float_wish;
	wish.flags = DETOUR_GUARD_ACTION;
	trial_compose(&action_record, &wish);
	memset(mask_record.head.types, 0, sizeof mask_record.head.types);
	memset(action_record.head.types, 0, sizeof action_record.head.types);
}

static void begin(void)
{
	trial_take_runner_for_keeper();
	trial_begin();
	compose();
}

static int arm(struct detour_result *result)
{
	*result = (struct detour_result){ 0 };
	cr_assert_eq(trial_place(&mask_record), 0);
	cr_assert_eq(trial_place(&action_record), 0);
	cr_assert_eq(trial_place(&record), 0);
	return trial_commit(result);
}

static struct trap_action action_now(int number)
{
	struct trap_action action;

	cr_assert_eq(trap_sigaction(number, NULL, &action), 0);
	return action;
}

static void as_before(void)
{
	cr_assert_arr_eq((void *)trial_victim, record.head.original, record.head.span_bytes);
	cr_assert_eq(action_now(SIGTRAP).handler, (uintptr_t)SIG_DFL);
	cr_assert_not(trap_program.is_guarded);
}

Test(trap, threads_run_through_a_breakpoint_while_it_comes_and_goes, .timeout = 100)
{
	struct detour_result result;

	begin();
	trial_runners_start(trial_victim, THREADS);
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t before = trial_runners_calls();

		cr_assert_eq(arm(&result), 0);
		cr_assert_eq(result.markers, 1, "guards are no events");
		cr_assert_eq(*(const uint8_t *)(uintptr_t)trial_victim, TRAP_OPCODE);
		cr_assert(AWAIT(trial_runners_calls() >= before + 1000));
		cr_assert(AWAIT(!trial_let_go()));
		as_before();
	}
	trial_runners_end();
	cr_assert_eq(trial_told.events, 1);
}

Test(trap, each_hit_is_an_event)
{
	struct detour_result result;

	begin();
	cr_assert_eq(arm(&result), 0);
	for (long i = 0; i < 100; i++)
		cr_assert_eq(trial_victim(i), i + 1);
	cr_assert_eq(trial_events(trial_told.event[0].id), 100);
	cr_assert_eq(trial_last[0], 99);
	cr_assert_eq(trial_let_go(), 0);
	as_before();
}

/* ---- refusals ---- */

static void refused(int error)
{
	struct detour_result result;

	cr_assert_eq(arm(&result), error);
	cr_assert_eq(result.markers, 0);
	cr_assert_eq(trial_told.refusals, 1);
	cr_assert_eq(trial_told.refusal[0].error, error);
	cr_assert_arr_eq((void *)trial_victim, record.head.original, record.head.span_bytes);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_not(trap_program.is_guarded);
}

Test(trap, without_guards_there_is_none)
{
	struct detour_result result = { 0 };

	begin();
	cr_assert_eq(trial_place(&record), 0);
	cr_assert_eq(trial_commit(&result), -WM_E_TRAP_GUARDS);
	cr_assert_eq(result.refused, 1);
	as_before();
}

Test(trap, both_guards_are_needed)
{
	struct detour_result result = { 0 };

	begin();
	cr_assert_eq(trial_place(&mask_record), 0);
	cr_assert_eq(trial_place(&record), 0);
	cr_assert_eq(trial_commit(&result), -WM_E_TRAP_GUARDS);
	cr_assert_eq(trial_let_go(), 0);
	trial_told.refusals = 0;
	cr_assert_eq(trial_place(&action_record), 0);
	cr_assert_eq(trial_place(&record), 0);
	cr_assert_eq(trial_commit(&result), -WM_E_TRAP_GUARDS);
	cr_assert_eq(trial_told.refusals, 1);
	cr_assert_eq(trial_let_go(), 0);
	as_before();
}

Test(trap, a_program_that_ignores_it_is_refused)
{
	begin();
	signal(SIGTRAP, SIG_IGN);
	refused(-WM_E_TRAP_IGNORED);
	cr_assert_eq(action_now(SIGTRAP).handler, (uintptr_t)SIG_IGN);
}

static void on_signal(int number)
{
	(void)number;
	calls++;
}

Test(trap, a_handler_that_blocks_it_is_refused)
{
	struct sigaction action = { .sa_handler = on_signal };

	begin();
	sigfillset(&action.sa_mask);
	sigaction(SIGUSR1, &action, NULL);
	refused(-WM_E_TRAP_MASKED);
}

Test(trap, a_mask_that_no_handler_runs_with_is_none)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct detour_result result;

	begin();
	sigfillset(&action.sa_mask);
	sigaction(SIGTRAP, &action, NULL);
	action.sa_handler = SIG_IGN;
	sigaction(SIGUSR1, &action, NULL);
	action.sa_handler = SIG_DFL;
	sigaction(SIGUSR2, &action, NULL);
	cr_assert_eq(arm(&result), 0);
	cr_assert_eq(result.markers, 1);
	cr_assert_eq(trial_victim(1), 2);
	cr_assert_eq(guard_sigaction(SIGTRAP, NULL, &action), 0);
	cr_assert_eq(action.sa_handler, on_signal, "the program's own, from before");
	cr_assert_eq(trial_let_go(), 0);
}

/* Past libc: what is there is not ours to call, nor to replace. */
Test(trap, another_action_is_left_alone)
{
	struct trap_action theirs = { .handler = (uintptr_t)SIG_IGN };
	struct trial_wish wish = trial_calls_wish;
	struct detour_result result;
	union trial_record other;

	begin();
	cr_assert_eq(arm(&result), 0);
	cr_assert_eq(trap_sigaction(SIGTRAP, &theirs, NULL), 0);
	wish.span = wish.steps[0];
	wish.step_count = 1;
	trial_compose(&other, &wish);
	other.head.tier = TIER_BREAKPOINT;
	cr_assert_eq(trial_place(&other), 0);
	cr_assert_eq(trial_commit(&result), -WM_E_TRAP_REPLACED);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_eq(action_now(SIGTRAP).handler, (uintptr_t)SIG_IGN);
}

Test(trap, a_session_that_ends_leaves_another_its_breakpoint)
{
	struct detour_result result = { 0 };
	struct detour_refusal refusal;

	begin();
	bed_store(OTHER_LANE, UINT64_C(8) << 20, STORE_DISCARD);
	registry_lane_open(OTHER_LANE);
	detour_lane_open(OTHER_LANE);
	cr_assert_eq(arm(&result), 0);
	for (int i = 0; i < 3; i++) {
		union trial_record *one = i == 0 ? &mask_record : i == 1 ? &action_record : &record;

		cr_assert_eq(detour_place(&trial_text, OTHER_LANE, &one->head, one->head.bytes,
					  &refusal),
			     0);
	}
	cr_assert_eq(detour_commit(&trial_text, OTHER_LANE, &result), 0);
	trial_arm_detour(&trial_calls_wish);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert(trap_is_ours(&(struct trap_action){ action_now(SIGTRAP).handler, 0, 0, 0 }));
	cr_assert(trap_program.is_guarded);
	cr_assert_eq(trial_victim(1), 2);
	detour_release(OTHER_LANE);
	cr_assert_eq(detour_disarm_idle(&trial_text, 1000, &result), 0);
	as_before();
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

Test(trap, a_thread_that_blocks_it_is_refused, .timeout = 60)
{
	pthread_t thread;

	begin();
	thread = start_blocker();
	refused(-WM_E_TRAP_BLOCKED);
	end_blocker(thread);
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

	begin();
	cr_assert_eq(pthread_create(&thread, NULL, filter, NULL), 0);
	trial_await(&is_blocked);
	if (is_blocked < 0)
		cr_skip_test("no seccomp filters here");
	refused(-WM_E_TRAP_FILTER);
	end_blocker(thread);
}

Test(trap, a_tracer_that_comes_later_has_them_all_taken_away, .timeout = 60)
{
	struct detour_result result;
	int status, tid = gettid(), ready[2];
	pid_t tracer;
	char byte;

	begin();
	cr_assert_eq(arm(&result), 0);
	cr_assert_eq(pipe(ready), 0);
	tracer = fork();
	if (!tracer) {
		byte = ptrace(PTRACE_SEIZE, tid, NULL, NULL) ? 'n' : 'y';
		if (write(ready[1], &byte, 1) == 1)
			sleep(60);
		_exit(0);
	}
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	if (byte == 'y') {
		detour_tick(&trial_text);
		cr_assert_eq(trial_told.refusals, 1);
		cr_assert_eq(trial_told.refusal[0].error, -WM_E_TRACED);
		cr_assert_arr_eq((void *)trial_victim, record.head.original,
				 record.head.span_bytes);
	}
	kill(tracer, SIGKILL);
	cr_assert_eq(waitpid(tracer, &status, 0), tracer);
	if (byte != 'y')
		cr_skip_test("no child may trace us here");
	cr_assert_eq(trial_let_go(), 0);
	as_before();
}

Test(trap, one_that_blocks_it_later_has_them_all_taken_away, .timeout = 60)
{
	struct detour_result result;
	pthread_t thread;

	begin();
	cr_assert_eq(arm(&result), 0);
	detour_tick(&trial_text);
	cr_assert_eq(trial_told.refusals, 0);
	thread = start_blocker();
	detour_tick(&trial_text);
	cr_assert_eq(trial_told.refusals, 1);
	cr_assert_eq(trial_told.refusal[0].error, -WM_E_TRAP_BLOCKED);
	cr_assert_arr_eq((void *)trial_victim, record.head.original, record.head.span_bytes);
	cr_assert_eq(trial_victim(1), 2);
	end_blocker(thread);
	cr_assert_eq(trial_let_go(), 0);
	as_before();
}

/* ---- guards ---- */

static void *use_mask(void *unused)
{
	sigset_t set, old;

	sigfillset(&set);
	cr_assert_eq(guard_sigmask(SIG_SETMASK, &set, &old), 0);
	cr_assert_not(sigismember(&old, SIGTRAP));
	/* it is not, or this would be the end */
	cr_assert_eq(trial_victim(1), 2);
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
	struct detour_result result;
	pthread_t thread;

	begin();
	cr_assert_eq(arm(&result), 0);
	cr_assert_eq(guard_sigaction(SIGTRAP, &action, &old), 0);
	cr_assert_eq(old.sa_handler, SIG_DFL);
	cr_assert_eq(guard_sigaction(SIGTRAP, NULL, &old), 0);
	cr_assert_eq(old.sa_handler, on_signal);
	cr_assert_eq(trap_program.lock, 0);
	cr_assert(trap_is_ours(&(struct trap_action){ action_now(SIGTRAP).handler, 0, 0, 0 }));
	cr_assert_eq(pthread_create(&thread, NULL, use_mask, NULL), 0);
	pthread_join(thread, NULL);
	sigfillset(&action.sa_mask);
	cr_assert_eq(guard_sigaction(SIGUSR1, &action, NULL), 0);
	cr_assert_eq(guard_sigaction(SIGUSR1, NULL, &old), 0);
	cr_assert(sigismember(&old.sa_mask, SIGTRAP));
	cr_assert_eq(action_now(SIGUSR1).mask & TRAP_SIGNAL_BIT, 0);
	cr_assert_eq(guard_sigaction(99, NULL, &old), -1);
	cr_assert_eq(errno, EINVAL);
	cr_assert_eq(guard_sigaction(LIBCS_FIRST, NULL, &old), -1, "nobody's but libc's");
	cr_assert_eq(errno, EINVAL);
	cr_assert_eq(guard_inner_sigaction(LIBCS_FIRST, NULL, &old), 0);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_eq(action_now(SIGTRAP).handler, (uintptr_t)on_signal);
	cr_assert_neq(action_now(SIGUSR1).mask & TRAP_SIGNAL_BIT, 0);
	/* and nothing of it is left when they come again */
	sigemptyset(&action.sa_mask);
	cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
	cr_assert_eq(arm(&result), 0);
	cr_assert_eq(guard_sigaction(SIGUSR1, NULL, &old), 0);
	cr_assert_not(sigismember(&old.sa_mask, SIGTRAP));
	cr_assert_eq(guard_sigaction(SIGTRAP, NULL, &old), 0);
	cr_assert_eq(old.sa_handler, on_signal, "the program's own");
	cr_assert_eq(trial_let_go(), 0);
}

/* It is ours that the kernel asks whether to begin the system call anew. */
Test(trap, system_calls_are_begun_anew_where_the_program_has_it_so)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct detour_result result;

	begin();
	cr_assert_eq(arm(&result), 0);
	cr_assert_neq(action_now(SIGTRAP).flags & SA_RESTART, 0, "there is nothing to tell");
	cr_assert_eq(guard_inner_sigaction(SIGTRAP, &action, NULL), 0);
	cr_assert_eq(action_now(SIGTRAP).flags & SA_RESTART, 0);
	action.sa_flags = SA_RESTART;
	cr_assert_eq(guard_sigaction(SIGTRAP, &action, NULL), 0);
	cr_assert_neq(action_now(SIGTRAP).flags & SA_RESTART, 0);
	cr_assert_eq(trial_let_go(), 0);
	action.sa_flags = 0;
	cr_assert_eq(sigaction(SIGTRAP, &action, NULL), 0);
	cr_assert_eq(arm(&result), 0);
	cr_assert_eq(action_now(SIGTRAP).flags & SA_RESTART, 0, "as it was before");
	cr_assert_eq(trial_let_go(), 0);
}

/* ---- the table ---- */

/* Spread without any order: some share a slot. */
static uintptr_t some_address(uintptr_t i)
{
	return 64 + i * i * 40 + i;
}

/* All want the table's last slot (the hash's inverse undoes it), and find room from its first on. */
static uintptr_t last_address(uintptr_t i)
{
	return ((UINT64_C(0x1fff) << 40) + i) * UINT64_C(0xf1de83e19937733d);
}

static void fill_table(uintptr_t (*address)(uintptr_t))
{
	for (uintptr_t i = 1; i <= TRAP_PLACES_MAX; i++)
		cr_assert_eq(trap_place(address(i), i, 1), 0);
	cr_assert_eq(trap_place(address(0), 1, 1), -WM_E_DETOUR_MEMORY);
	for (uintptr_t i = 1; i <= TRAP_PLACES_MAX; i += 2)
		trap_forget(address(i));
	/* those that are there take no more room; those that were forgotten are not */
	for (uintptr_t i = 1; i <= TRAP_PLACES_MAX; i++)
		cr_assert_eq(trap_place(address(i), i, 1), i % 2 ? -WM_E_DETOUR_MEMORY : 0, "%zu",
			     (size_t)i);
}

Test(trap, the_table_has_room_for_so_many_and_finds_each)
{
	fill_table(some_address);
}

Test(trap, the_table_goes_on_from_its_last_slot_to_its_first)
{
	fill_table(last_address);
}

/* ---- the handler, called as the kernel would ---- */

typedef void trap_handler(int number, siginfo_t *info, void *context);

/* Where the thread goes on that stands behind a breakpoint at the victim. */
static uintptr_t goes_on_at(uintptr_t handler, int code)
{
	siginfo_t info = { .si_signo = SIGTRAP, .si_code = code };
	ucontext_t context = { 0 };
	uint64_t all = ~UINT64_C(0), before;

	syscall_raw(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)&before, sizeof all);
	trap_set_pc(&context, (uintptr_t)trial_victim + TRAP_BYTES);
	((trap_handler *)handler)(SIGTRAP, &info, &context); /* NOLINT: as the kernel has it */
	syscall_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before);
	return trap_pc(&context);
}

Test(trap, it_is_known_whose_a_signal_is)
{
	const uintptr_t behind = (uintptr_t)trial_victim + TRAP_BYTES;
	struct sigaction action = { .sa_handler = on_signal };
	struct detour_result result;
	uintptr_t handler, code;
	uint8_t byte;

	begin();
	cr_assert_eq(arm(&result), 0);
	cr_assert_eq(guard_sigaction(SIGTRAP, &action, NULL), 0);
	handler = action_now(SIGTRAP).handler;
	cr_assert_eq(action_now(SIGTRAP).mask & TRAP_SIGNAL_BIT, 0,
		     "that looks as if it were blocked");
	cr_assert_neq(action_now(SIGTRAP).mask & 1u << (SIGALRM - 1), 0);
	cr_assert_neq(action_now(SIGTRAP).flags & SA_NODEFER, 0, "and so would that");
	code = goes_on_at(handler, SI_KERNEL);
	cr_assert_neq(code, behind);
	cr_assert_eq(calls, 0);
	/* one that was sent, and swallowed that of the breakpoint: it is both */
	cr_assert_eq(goes_on_at(handler, SI_TKILL), code);
	cr_assert_eq(calls, 1);
	cr_assert_eq(trap_program.lock, 0, "who comes next need not wait");
	/* a single step that ended there */
	cr_assert_eq(goes_on_at(handler, TRAP_TRACE), behind);
	cr_assert_eq(calls, 2);
	/* the program's own, put there when ours was gone */
	trap_set_live((uintptr_t)trial_victim, 0);
	cr_assert_eq(goes_on_at(handler, SI_KERNEL), behind);
	cr_assert_eq(calls, 3);
	trap_set_live((uintptr_t)trial_victim, 1);
	/* behind an instruction of one byte a thread may well be */
	cr_assert_eq(trap_place((uintptr_t)trial_victim, code, 1), 0);
	cr_assert_eq(goes_on_at(handler, SI_TKILL), behind);
	cr_assert_eq(calls, 4);
	/* ours, that went before the handler came to look */
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_eq(goes_on_at(handler, SI_KERNEL), (uintptr_t)trial_victim);
	cr_assert_eq(calls, 4);
	/* and the program's own in its place */
	byte = TRAP_OPCODE;
	cr_assert_eq(text_write_code(&trial_text, (uintptr_t)trial_victim, &byte, 1,
				     PROT_READ | PROT_EXEC),
		     0);
	cr_assert_eq(goes_on_at(handler, SI_KERNEL), behind);
	cr_assert_eq(calls, 5);
	trap_forget((uintptr_t)trial_victim);
	cr_assert_eq(goes_on_at(handler, SI_KERNEL), behind);
	cr_assert_eq(calls, 6, "nobody's");
}
