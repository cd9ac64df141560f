/* SPDX-License-Identifier: MIT */
/* Records that a trail has no room for, or that were not requested. */
#include "record/trail/trail.h"
#include "base/testing/await.h"
#include "record/trail/testing/subject.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(trail_policy, .fini = subject_end, .timeout = 120);

/* ---- policies ---- */

Test(trail_policy, keeps_the_newest_when_it_is_cyclic)
{
	struct wm_trail_options options = { .size = sizeof(options), .bytes = SMALL };
	struct wm_trail_status status;
	struct wm_branch oldest;

	subject_launch("t", &options);
	subject_ended();
	status = subject_status();
	cr_expect_eq(status.state, WM_TRAIL_STATE_OVER);
	cr_expect_eq(status.origin, TRAIL_ORIGIN_ORACLE);
	cr_expect_eq(status.bytes, SMALL);
	cr_expect_gt(status.lost, TURNS);
	/* way in, a call, a return, and a turn each, the way out */
	cr_expect_eq(status.branches + status.lost, 3 + 3 * TURNS + 1);
	oldest = subject_get((uint64_t)wm_trail_records(trail, 0) - 1);
	cr_expect_eq(oldest.event, WM_TRAIL_EVENT_LOST);
	cr_expect_eq(oldest.values[0], status.lost);
	cr_expect_eq(subject_get(0).event, WM_TRAIL_EVENT_END);
}

Test(trail_policy, keeps_the_oldest_when_it_discards)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .bytes = SMALL,
					    .policy = WM_POLICY_DISCARD };
	struct wm_trail_status status;

	subject_launch("t", &options);
	subject_ended();
	status = subject_status();
	cr_expect_gt(status.lost, TURNS);
	cr_expect_eq(subject_get(0).event, WM_TRAIL_EVENT_END);
	cr_expect_eq(subject_get(1).event, WM_TRAIL_EVENT_LOST);
	cr_expect_eq(subject_get(1).values[0], status.lost);
	cr_expect_eq(subject_get((uint64_t)wm_trail_records(trail, 0) - 1).flags, 0);
}

/*
 * More threads than there are pieces of memory: nothing of the last is kept, and the status reports
 * that.
 */
Test(trail_policy, counts_threads_that_it_has_no_room_for)
{
	struct wm_trail_options options = { .size = sizeof(options), .bytes = SMALL };
	struct wm_trail_status status = { 0 };

	subject_launch("w", &options);
	cr_assert(AWAIT(
		(status = subject_status(), status.threads + status.lost_threads >= CROWD + 1)));
	cr_expect_eq(status.threads + status.lost_threads, CROWD + 1);
	cr_expect_gt(status.lost_threads, 0);
	cr_expect_gt(status.lost, 0, "nor is what they did forgotten");
}

/*
 * Wait until the program is held: for a second it has had no processor time, and no record has
 * come.
 */
static void await_hold(void)
{
	uint64_t before;
	int rounds = 0;

	do {
		before = subject_ticks(child) + subject_status().branches;
		cr_assert_eq(wm_trail_wait(trail, 1000), 0, "it has ended, without a drain");
	} while (before != subject_ticks(child) + subject_status().branches && rounds++ < 60);
	cr_expect_lt(rounds, 60, "it never stops");
}

Test(trail_policy, holds_the_program_until_it_is_drained_when_it_blocks)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .bytes = SMALL,
					    .policy = WM_POLICY_BLOCK };
	struct subject_drained drained = { 0 };
	uint64_t blocks = 0;

	subject_launch("t", &options);
	await_hold();
	cr_expect_eq(subject_status().state, WM_TRAIL_STATE_LIVE);
	while (!wm_trail_wait(trail, 1))
		cr_assert_eq(wm_trail_read(trail, subject_keep, &drained), 0);
	cr_assert_eq(wm_trail_read(trail, subject_keep, &drained), 0);
	cr_expect_eq(subject_status().lost, 0);
	for (size_t i = 0; i < drained.count; i++) {
		blocks += !(drained.all[i].flags & WM_BRANCH_EVENT);
		if (i && i + 1 < drained.count)
			cr_assert_eq(drained.all[i].from, drained.all[i - 1].last);
	}
	cr_expect_eq(blocks, 3 + 3 * TURNS + 1);
	cr_expect(WIFEXITED(subject_ended()));
	free(drained.all);
}

Test(trail_policy, lets_go_a_program_that_it_holds_when_it_is_closed)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .bytes = SMALL,
					    .policy = WM_POLICY_BLOCK };
	int status;

	subject_launch("t", &options);
	await_hold();
	cr_assert_geq(subject_status().used_bytes, SMALL * 3 / 4);
	wm_trail_close(trail);
	trail = NULL;
	cr_assert_eq(waitpid(child, &status, 0), child);
	child = 0;
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

Test(trail_policy, tells_its_owner_at_the_watermark)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .bytes = SMALL * 2,
					    .policy = WM_POLICY_NOTIFY,
					    .watermark_percent = 60 };
	struct pollfd ready = { .events = POLLIN };
	uint64_t times = 0;

	ready.fd = options.notify_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	subject_launch("t", &options);
	cr_expect_eq(poll(&ready, 1, WAIT_MS), 1);
	cr_expect_geq(subject_status().used_bytes, SMALL * 2 / 100 * 60);
	subject_ended();
	cr_expect_eq(read(ready.fd, &times, sizeof(times)), (ssize_t)sizeof(times));
	cr_expect_eq(times, 1);
	cr_expect_gt(subject_status().lost, 0);
	close(ready.fd);
}

static volatile sig_atomic_t signals, strangers;

static void on_signal(int number)
{
	(void)number;
	signals++;
	strangers += gettid() != getpid();
}

static int is_pending(int number)
{
	sigset_t pending;

	sigpending(&pending);
	return sigismember(&pending, number);
}

Test(trail_policy, tells_its_owner_by_a_signal)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .bytes = SMALL,
					    .policy = WM_POLICY_NOTIFY,
					    .notify_fd = -1,
					    .notify_signal = SIGUSR2 };
	sigset_t one;

	signal(SIGUSR2, on_signal);
	sigemptyset(&one);
	sigaddset(&one, SIGUSR2);
	subject_launch("t", &options);
	/* it waits for us, since no other thread here is ours */
	pthread_sigmask(SIG_BLOCK, &one, NULL);
	cr_assert(AWAIT(is_pending(SIGUSR2) || signals));
	pthread_sigmask(SIG_UNBLOCK, &one, NULL);
	cr_expect_eq(signals, 1);
	cr_expect_eq(strangers, 0, "no thread of the library's runs a handler");
}

/* ---- what is recorded ---- */

Test(trail_policy, leaves_out_what_was_not_asked_for)
{
	struct wm_trail_options options = { .size = sizeof(options) };
	int syscalls = 0, found = 0, gaps = 0;

	subject_launch_of(STEPS, "s", &options);
	subject_ended();
	for (int64_t i = wm_trail_records(trail, 0); i--;) {
		struct wm_branch branch = subject_get((uint64_t)i);

		if (!(branch.flags & WM_BRANCH_EVENT))
			continue;
		syscalls += branch.event == WM_TRAIL_EVENT_SYSCALL;
		found += branch.event == WM_TRAIL_EVENT_SIGNAL;
		if (branch.event != WM_TRAIL_EVENT_END)
			cr_expect_eq(branch.to, subject_get((uint64_t)i - 1).to);
		gaps += branch.event == WM_TRAIL_EVENT_GAP && branch.values[0] == 1;
	}
	cr_expect_eq(syscalls, 0);
	cr_expect_eq(found, 0);
	cr_expect_eq(gaps, 2, "to the handler, and back");
}
