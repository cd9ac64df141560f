/* SPDX-License-Identifier: MIT */
/* Which hits are taken, and what becomes of those that come at the wrong time. */
#include "inside/unwind/unwind.h"
#include "inside/watch/testing/fixture.h"

#include "base/syscall.h"
#include "base/testing/await.h"
#include "inside/watch/take.h"
#include "inside/watch/trap.h"
#include "inside/watch/watch_entry.h"

#include <waymark/error.h>
#include <waymark/marker.h>

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <linux/perf_event.h>
#include <unistd.h>

#define PAGE_BYTES 4096

static uint64_t word[4] __attribute__((aligned(64)));

/* ---- which are wanted ---- */

static volatile int32_t narrow;

Test(watch, conditions_choose_and_the_rest_is_counted, .timeout = 30)
{
	struct control_watch about = sample_about(0, (const void *)&narrow, 4);

	about.type = WM_TYPE_I32;
	about.conditions[0] = (struct watch_condition){ .of = WATCH_OF_NEW,
							.by = WATCH_BY_LESS,
							.as = WATCH_AS_SIGNED,
							.operand = (uint64_t)-2 };
	about.conditions[1] = (struct watch_condition){ .of = WATCH_OF_CHANGE };
	sample_begin();
	sample_arm(&about);
	for (int32_t i = 3; i > -5; i--) {
		narrow = i;
		narrow = i;
	}
	cr_assert_eq(sample_collect(4), 2);
	cr_assert_eq((int32_t)sample_told[0].now, -3);
	cr_assert_eq((int32_t)sample_told[1].now, -4);
	cr_assert_eq(sample_table->rows[0].taken, 16);
	cr_assert_eq(sample_table->rows[0].filtered, 14);
	sample_end(0);
}

/* ---- what is gone ---- */

Test(watch, what_comes_once_its_thread_has_ended_is_dropped, .timeout = 30)
{
	struct control_watch about = sample_about(0, word, 8),
			     beside = sample_about(1, &word[1], 8);
	static volatile uint32_t number = 4711;

	about.owner = (uintptr_t)&number;
	about.owner_number = 4711;
	sample_begin();
	sample_arm(&about);
	sample_arm(&beside);
	*(volatile uint64_t *)word = 1;
	number = 0;
	*(volatile uint64_t *)word = 2;
	/* found by its neighbour's signal, it is gone all the same */
	__asm__ volatile("movdqu %%xmm0, %0" : "=m"(*(char(*)[16])word));
	number = 4711;
	*(volatile uint64_t *)word = 3;
	cr_assert_eq(sample_table->rows[0].taken, 2);
	cr_assert_eq(sample_table->rows[0].dropped, 2);
	cr_assert_eq(sample_table->rows[1].taken, 1);
	cr_assert_eq(sample_counted(0), 4);
	sample_end(0);
	sample_end(1);
}

Test(watch, what_comes_once_its_owner_can_not_be_read_is_dropped, .timeout = 30)
{
	struct control_watch about = sample_about(0, word, 8);

	about.owner = PAGE_BYTES / 2;
	sample_begin();
	sample_arm(&about);
	*(volatile uint64_t *)word = 1;
	cr_assert_eq(sample_table->rows[0].taken, 0);
	cr_assert_eq(sample_table->rows[0].dropped, 1);
	sample_end(0);
}

Test(watch, what_comes_once_its_module_is_gone_is_dropped, .timeout = 30)
{
	struct control_watch about = sample_about(0, word, 8);
	struct module module = { .segment_count = 1,
				 .segments = { { (uintptr_t)word, (uintptr_t)word + 8, 3 } } };

	sample_begin();
	sample_arm(&about);
	*(volatile uint64_t *)word = 1;
	module.segments[0].start += 8;
	module.segments[0].end += 8;
	watch_module_gone(&module);
	*(volatile uint64_t *)word = 2;
	module.segments[0].start -= 8;
	watch_module_gone(&module);
	*(volatile uint64_t *)word = 3;
	cr_assert_eq(sample_table->rows[0].taken, 2);
	cr_assert_eq(sample_table->rows[0].dropped, 1);
	sample_end(0);
	/* what has its number next is there */
	sample_arm(&about);
	*(volatile uint64_t *)word = 4;
	cr_assert_eq(sample_table->rows[0].taken, 1);
	sample_end(0);
}

Test(watch, what_the_agent_itself_writes_is_no_event, .timeout = 30)
{
	struct control_watch about = sample_about(0, word, 8);

	sample_begin();
	sample_arm(&about);
	*(volatile uint64_t *)word = 1;
	watch_own_code(1, UINTPTR_MAX);
	*(volatile uint64_t *)word = 2;
	watch_own_code(0, 0);
	cr_assert_eq(sample_collect(8), 1);
	cr_assert_eq(sample_table->rows[0].taken, 2);
	cr_assert_eq(sample_table->rows[0].own, 1);
	sample_end(0);
}

static volatile sig_atomic_t raised;

static void on_raised(int number)
{
	(void)number;
	raised = (int)word[0];
}

Test(watch, a_signal_comes_right_behind_the_store, .timeout = 30)
{
	struct control_watch about = sample_about(0, word, 8);

	about.signal = SIGUSR1;
	about.flags = WATCH_COUNT_ONLY;
	about.conditions[0] = (struct watch_condition){
		.of = WATCH_OF_NEW, .by = WATCH_BY_EQUAL, .as = WATCH_AS_UNSIGNED, .operand = 7
	};
	signal(SIGUSR1, on_raised);
	sample_begin();
	sample_arm(&about);
	*(volatile uint64_t *)word = 6;
	cr_assert_eq(raised, 0);
	*(volatile uint64_t *)word = 7;
	cr_assert_eq(raised, 7);
	cr_assert_eq(sample_collect(8), 0);
	cr_assert_eq(sample_table->rows[0].counted, 1);
	cr_assert_eq(sample_table->rows[0].filtered, 1);
	cr_assert_eq(sample_table->rows[0].signalled, 1);
	sample_end(0);
}

Test(watch, reads_are_told_as_such, .timeout = 30)
{
	struct control_watch about = sample_about(0, word, 8);
	uint64_t value;

	about.on = WATCH_ON_ACCESS;
	word[0] = 5;
	sample_begin();
	sample_arm(&about);
	value = *(volatile uint64_t *)word;
	*(volatile uint64_t *)word = value + 1;
	cr_assert_eq(sample_collect(8), 2);
	cr_assert(sample_told[0].how & WATCH_READ);
	cr_assert_eq(sample_told[0].now, 5);
	cr_assert_not(sample_told[1].how & WATCH_READ);
	cr_assert_eq(sample_told[1].now, 6);
	sample_end(0);
}

/* ---- foreign signals, and signals at the wrong time ---- */

Test(watch, what_comes_with_the_gate_shut_is_dropped_and_counted, .timeout = 30)
{
	struct control_watch about = sample_about(0, word, 8);

	sample_begin();
	sample_arm(&about);
	__atomic_store_n(&sample_table->rows[0].gate, WATCH_OFF, __ATOMIC_SEQ_CST);
	*(volatile uint64_t *)word = 1;
	/* as after a modify */
	__atomic_store_n(&sample_table->rows[0].gate, WATCH_GATE(1, WATCH_ON), __ATOMIC_SEQ_CST);
	*(volatile uint64_t *)word = 2;
	cr_assert_eq(sample_counted(0), 2);
	cr_assert_eq(sample_table->rows[0].dropped, 2);
	cr_assert_eq(sample_table->rows[0].taken, 0);
	cr_assert_eq(sample_collect(8), 0);
	sample_end(0);
}

static volatile uint64_t theirs;

static void on_theirs(int number, siginfo_t *info, void *context)
{
	(void)number, (void)context;
	memcpy((void *)(uintptr_t)&theirs, (char *)info + TAKE_PERF_DATA_AT, sizeof theirs);
}

Test(watch, a_program_has_its_own_watches, .timeout = 30)
{
	struct control_watch ours = sample_about(0, &word[0], 8),
			     other = sample_about(1, &word[1], 8);
	struct sigaction action = { .sa_sigaction = on_theirs, .sa_flags = SA_SIGINFO };
	int fd;

	sample_begin();
	sigaction(SIGTRAP, &action, NULL);
	sample_arm(&ours);
	other.magic = SAMPLE_MAGIC + 1;
	fd = sample_open(&other, 0);
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	*(volatile uint64_t *)&word[1] = 1;
	*(volatile uint64_t *)word = 1;
	cr_assert_eq(theirs, WATCH_COOKIE(SAMPLE_MAGIC + 1, 1, 0));
	cr_assert_eq(sample_collect(8), 1);
	close(fd);
	sample_end(0);
}

/* A tool that was killed: its sample_events end a moment after its connection. */
Test(watch, a_signal_that_comes_too_late_kills_nobody, .timeout = 30)
{
	struct control_watch about = sample_about(0, word, 8);

	sample_begin();
	sample_arm(&about);
	watch_release(TRIAL_LANE, 1);
	*(volatile uint64_t *)word = 1; /* the tool lives: it is we */
	cr_assert(watch_waits());
	cr_assert_neq(trial_let_go(), 0, "the handler stays, and the guards");
	*(volatile uint64_t *)word = 2;
	cr_assert_eq(sample_collect(8), 0);
	close(sample_events[0]);
}

static void ask_as(pid_t tool)
{
	struct control_watch about = sample_about(1, &word[1], 8);
	char text[] = "md\nwatch\nword\n?\n0\nip,old,new,how";
	int fd;

	about.magic = SAMPLE_MAGIC + 1;
	cr_assert_eq(watch_add(TRIAL_LANE, &about, text, sizeof text, tool, &fd), 0);
	close(fd);
}

static void end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static pid_t make_tool(void)
{
	pid_t child = fork();

	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return child;
}

/* A tool that was stopped with its watches, and given up: another has its lane meanwhile. */
Test(watch, a_lane_that_another_tool_had_does_not_let_go_of_the_one_before, .timeout = 30)
{
	struct control_watch about = sample_about(0, word, 8);
	pid_t other = make_tool();

	sample_begin();
	sample_arm(&about);
	watch_release(TRIAL_LANE, 1);
	ask_as(other);
	watch_release(TRIAL_LANE, 0);
	cr_assert(watch_waits());
	ask_as(other);
	watch_release(TRIAL_LANE, 1);
	end(other);
	cr_assert(watch_waits(), "the first lives");
	cr_assert_neq(trial_let_go(), 0);
	*(volatile uint64_t *)word = 1; /* kills where the handler has gone */
	close(sample_events[0]);
}

Test(watch, a_tool_that_ended_is_feared_no_more, .timeout = 30)
{
	pid_t tool = make_tool();

	sample_begin();
	ask_as(tool);
	watch_release(TRIAL_LANE, 1);
	watch_begin(); /* the descriptors of the control thread before */
	cr_assert(watch_waits());
	end(tool);
	cr_assert_not(watch_waits());
	watch_tick();
	cr_assert_eq(trial_let_go(), 0);
}

Test(watch, a_tool_that_can_not_be_named_is_feared_for_good, .timeout = 30)
{
	sample_begin();
	ask_as(0);
	watch_release(TRIAL_LANE, 1);
	cr_assert(watch_waits());
	cr_assert_neq(trial_let_go(), 0);
}

Test(watch, no_more_tools_are_let_in_than_can_be_feared, .timeout = 30)
{
	struct control_watch about = sample_about(0, word, 8);

	sample_begin();
	for (int i = 0; i < 9; i++) {
		ask_as(0);
		watch_release(TRIAL_LANE, 1);
	}
	cr_assert_eq(sample_add(&about), -EBUSY);
}

/* So many sessions came and went that its magic would be forgotten. */
Test(watch, the_one_that_is_feared_is_not_forgotten, .timeout = 30)
{
	struct control_watch about = sample_about(0, word, 8), next = sample_about(1, &word[1], 8);

	sample_begin();
	sample_arm(&about);
	watch_release(TRIAL_LANE, 1);
	for (uint32_t i = 1; i < 2 * WATCH_PAST_MAX; i++) {
		next.magic = SAMPLE_MAGIC + i;
		cr_assert_eq(sample_add(&next), 0);
		watch_release(TRIAL_LANE, 0);
	}
	*(volatile uint64_t *)word = 1;
	close(sample_events[0]);
}

Test(watch, the_handler_goes_with_the_last, .timeout = 30)
{
	struct control_watch about = sample_about(0, word, 8);
	struct trap_action action;

	sample_begin();
	sample_arm(&about);
	*(volatile uint64_t *)word = 1;
	sample_end(0);
	cr_assert_not(watch_any());
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_eq(trap_sigaction(SIGTRAP, NULL, &action), 0);
	cr_assert_eq(action.handler, (uintptr_t)SIG_DFL);
	cr_assert_not(trap_program.is_guarded);
}

/* ---- blocked signals ---- */

Test(watch, a_store_while_sigtrap_is_blocked_is_told_late_or_missed, .timeout = 30)
{
	struct control_watch about = sample_about(0, word, 8);
	uint64_t mask = TRAP_SIGNAL_BIT;

	sample_begin();
	sample_arm(&about);
	/* past libc, which is guarded */
	syscall_raw(SYS_rt_sigprocmask, SIG_BLOCK, (long)&mask, 0, sizeof mask);
	for (uint64_t i = 1; i <= 5; i++)
		*(volatile uint64_t *)word = i;
	syscall_raw(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&mask, 0, sizeof mask);
	cr_assert_eq(sample_counted(0), 5);
	cr_assert_eq(sample_table->rows[0].taken, 1, "standard signals do not queue");
	cr_assert_eq(sample_table->rows[0].late, 1);
	cr_assert_eq(sample_collect(8), 1);
	cr_assert_eq(sample_told[0].now, 5);
	cr_assert_eq(sample_told[0].how, WATCH_LATE);
	sample_end(0);
}

static void on_masked(int number)
{
	(void)number;
	for (uint64_t i = 1; i <= 3; i++)
		*(volatile uint64_t *)word = i;
}

Test(watch, a_handler_that_blocks_everything_is_seen_into, .timeout = 30)
{
	struct control_watch about = sample_about(0, word, 8);
	struct sigaction action = { .sa_handler = on_masked };
	struct trap_action found;

	sample_begin();
	sigfillset(&action.sa_mask);
	sigaction(SIGUSR1, &action, NULL);
	sample_arm(&about);
	raise(SIGUSR1);
	cr_assert_eq(sample_counted(0), 3);
	cr_assert_eq(sample_collect(8), 3);
	cr_assert_eq(sample_told[2].how, WATCH_NEW_EXACT);
	sample_end(0);
	/* on a busy machine not all threads are stopped in time: then it is left for later */
	cr_assert(AWAIT((trial_let_go(), !trap_program.is_installed)));
	cr_assert_eq(trap_sigaction(SIGUSR1, NULL, &found), 0);
	cr_assert(found.mask & TRAP_SIGNAL_BIT, "its mask is as it was");
}

/* ---- forks, memory that goes ---- */

Test(watch, a_forked_child_is_not_watched, .timeout = 30)
{
	struct control_watch about = sample_about(0, word, 8);
	pid_t child;
	int status;

	sample_begin();
	sample_arm(&about);
	child = fork();
	if (!child) {
		*(volatile uint64_t *)word = 9;
		_exit(word[0] == 9 ? 0 : 1);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
	*(volatile uint64_t *)word = 1;
	cr_assert_eq(sample_counted(0), 1);
	cr_assert_eq(sample_collect(8), 1);
	sample_end(0);
}

Test(watch, code_that_no_table_tells_of_is_watched_with_care, .timeout = 30)
{
	/* mov %rsi, (%rdi); ret */
	static const uint8_t bytes[] = { 0x48, 0x89, 0x37, 0xc3 };
	struct control_watch about = sample_about(0, word, 8);
	uint8_t *code = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(code, MAP_FAILED);
	memcpy(code, bytes, sizeof bytes);
	sample_begin();
	sample_arm(&about);
	((void (*)(uint64_t *, uint64_t))(uintptr_t)code)(word, 77);
	cr_assert_eq(sample_collect(8), 1);
	cr_assert_eq(sample_told[0].now, 77);
	cr_assert_eq(sample_told[0].how, WATCH_IP_BEHIND);
	cr_assert_eq(sample_told[0].ip, (uintptr_t)code + 2);
	sample_end(0);
}

/* ---- what makes no sense ---- */

Test(watch, requests_that_make_no_sense_are_refused, .timeout = 30)
{
	struct control_watch good = sample_about(0, word, 8), bad;
	int i = 0;

	sample_begin();
#define BAD(change)                                                                                \
	do {                                                                                       \
		bad = good;                                                                        \
		change;                                                                            \
		cr_assert_eq(sample_add(&bad), -WM_E_PROTOCOL, "%d", i);                           \
		i++;                                                                               \
	} while (0)
	BAD(bad.bytes = 3);
	BAD(bad.bytes = 0);
	BAD(bad.bytes = 16);
	BAD(bad.address++);
	BAD(bad.type = WM_TYPE_STR);
	BAD(bad.type = WM_TYPE_U32);
	BAD(bad.on = 0);
	BAD(bad.on = 4);
	BAD(bad.flags = 4);
	BAD(bad.magic = 0);
	BAD(bad.signal = SIGTRAP);
	BAD(bad.signal = 65);
	BAD(bad.callers = WATCH_CALLERS_MAX + 1);
	BAD(bad.number = bad.event = 0; bad.number = 65536);
	BAD(bad.conditions[0].of = 9);
	BAD(bad.bit = 60; bad.bits = 5);
	BAD((bad.conditions[0] = (struct watch_condition){
		     .of = WATCH_OF_CHANGE, .bit = 60, .bits = 5 }));
	BAD((bad.conditions[0] = (struct watch_condition){ .of = WATCH_OF_NEW, .by = 9, .as = 1 }));
	BAD((bad.conditions[0] = (struct watch_condition){
		     .of = WATCH_OF_NEW, .by = 1, .as = WATCH_AS_UNSIGNED, .bit = 60, .bits = 5 }));
	BAD((bad.conditions[0] = (struct watch_condition){
		     .of = WATCH_OF_NEW, .by = 1, .as = WATCH_AS_F32 }));
	bad = good;
	bad.number = bad.event = WATCH_ROWS_MAX;
	cr_assert_eq(sample_add(&bad), -ENOSPC);
	bad = good;
	bad.event = 5;
	cr_assert_eq(sample_add(&bad), -EEXIST, "there is no such event");
	cr_assert_eq(sample_add(&good), 0);
	cr_assert_eq(sample_add(&good), -EEXIST);
	watch_release(TRIAL_LANE, 0);
	cr_assert_not(watch_any());
}

Test(watch, without_guards_there_is_none, .timeout = 30)
{
	struct control_watch about = sample_about(0, word, 8);

	trial_take_runner_for_keeper();
	unwind_init();
	watch_init();
	trial_begin();
	cr_assert_eq(sample_add(&about), -WM_E_TRAP_GUARDS);
}

Test(watch, a_program_that_ignores_sigtrap_is_refused, .timeout = 30)
{
	struct control_watch about = sample_about(0, word, 8);

	sample_begin();
	signal(SIGTRAP, SIG_IGN);
	cr_assert_eq(sample_add(&about), -WM_E_TRAP_IGNORED);
}
