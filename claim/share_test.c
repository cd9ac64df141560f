/* SPDX-License-Identifier: MIT */
/* What one word that is watched twice comes to: what ledger.h says of the kernel, tried. */
#include "trial/testing/needs.h"

#include <criterion/criterion.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STORES 50
#define TRAP_PERF_CODE 6

static volatile uint64_t words[2] __attribute__((aligned(16)));
static volatile uint64_t signals[3]; /* by cookie */

/* siginfo_t's si_perf_data follows si_addr; older libraries don't name it. */
static void on_trap(int number, siginfo_t *info, void *context)
{
	uint64_t cookie;

	(void)number;
	(void)context;
	memcpy(&cookie, (char *)&info->si_addr + sizeof(info->si_addr), sizeof(cookie));
	if (info->si_code == TRAP_PERF_CODE && cookie < 3)
		signals[cookie]++;
}

static int watch(pid_t tid, volatile uint64_t *word, uint64_t cookie)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_BREAKPOINT,
					.size = sizeof(attr),
					.sample_period = 1,
					.bp_type = HW_BREAKPOINT_W,
					.bp_addr = (uintptr_t)word,
					.bp_len = HW_BREAKPOINT_LEN_8,
					.exclude_kernel = 1,
					.exclude_hv = 1,
					.remove_on_exec = 1,
					.sigtrap = 1,
					.sig_data = cookie };

	return (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static uint64_t count_of(int fd)
{
	uint64_t count = 0;

	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	cr_assert_eq(read(fd, &count, sizeof(count)), sizeof(count));
	return count;
}

static void begin(void)
{
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
	int fd;

	NEEDS(TRIAL_BREAKPOINT_WRITE);
	NEEDS(TRIAL_BREAKPOINT_SIGNAL);
	sigaction(SIGTRAP, &action, NULL);
	fd = watch(0, words, 1);
	if (fd < 0)
		cr_skip_test("no breakpoints that signal may be opened here");
	close(fd);
}

TestSuite(claim_share, .init = begin, .timeout = 60);

Test(claim_share, two_events_on_a_word_bring_one_signal)
{
	int one = watch(0, words, 1), two = watch(0, words, 2);

	cr_assert(one >= 0 && two >= 0);
	for (uint64_t i = 0; i < STORES; i++)
		words[0] = i;
	cr_expect_eq(count_of(one), STORES);
	cr_expect_eq(count_of(two), STORES);
	cr_expect_eq(signals[1] + signals[2], STORES, "%lu and %lu", signals[1], signals[2]);
	cr_expect(!signals[1] || !signals[2], "one of them is told nothing");
}

typedef uint64_t pair __attribute__((vector_size(16)));

Test(claim_share, a_store_over_two_watched_words_brings_one_signal)
{
	int one = watch(0, &words[0], 1), two = watch(0, &words[1], 2);

	cr_assert(one >= 0 && two >= 0);
	for (uint64_t i = 0; i < STORES; i++)
		*(volatile pair *)words = (pair){ i, i };
	cr_expect_eq(count_of(one), STORES);
	cr_expect_eq(count_of(two), STORES);
	cr_expect_eq(signals[1] + signals[2], STORES, "%lu and %lu", signals[1], signals[2]);
}

/* How many more a thread can have. */
static int free_registers(void)
{
	int fds[8], count = 0;

	while (count < 8 && (fds[count] = watch(0, &words[1], 0)) >= 0)
		count++;
	for (int i = 0; i < count; i++)
		close(fds[i]);
	return count;
}

Test(claim_share, an_event_goes_on_for_who_has_its_descriptor)
{
	int all = free_registers(), ends[2], theirs, pidfd, ours;
	pid_t opener, me = getpid();

	cr_assert_eq(pipe(ends), 0);
	opener = fork();
	if (!opener) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		theirs = watch(me, words, 1);
		if (write(ends[1], &theirs, sizeof(theirs)) != sizeof(theirs))
			_exit(1);
		for (;;)
			pause();
	}
	cr_assert_eq(read(ends[0], &theirs, sizeof(theirs)), sizeof(theirs));
	if (theirs < 0) {
		kill(opener, SIGKILL);
		cr_skip_test("a child may not watch its parent here");
	}
	pidfd = (int)syscall(SYS_pidfd_open, opener, 0);
	ours = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, theirs, 0);
	if (ours < 0) {
		kill(opener, SIGKILL);
		cr_skip_test("another process's descriptors can't be had here");
	}
	cr_expect_eq(free_registers(), all - 1, "it takes one for both");
	kill(opener, SIGKILL);
	waitpid(opener, NULL, 0);
	for (uint64_t i = 0; i < STORES; i++)
		words[0] = i;
	cr_expect_eq(signals[1], STORES, "its opener is dead");
	cr_expect_eq(free_registers(), all - 1);
	cr_expect_eq(count_of(ours), STORES);
	words[0] = 1;
	cr_expect_eq(signals[1], STORES, "whoever has it may disable it");
	close(ours);
	cr_expect_eq(free_registers(), all);
}
