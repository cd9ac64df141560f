/* SPDX-License-Identifier: MIT */
/* A caller's event loop with wm_trail_fd(). */
#include "record/trail/trail.h"
#include "base/testing/await.h"
#include "record/trail/testing/subject.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUIET_MS 300 /* a time without input, which is what is tested */

static void begin(void)
{
	setenv("WAYMARK_ENGINE", ENGINE, 1);
}

TestSuite(trail_fd, .init = begin, .fini = subject_end, .timeout = 120);

static int is_readable(int fd, int timeout_ms)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	return poll(&ready, 1, timeout_ms);
}

struct seen {
	uint64_t records, ends;
};

static int see(const struct wm_branch *branch, void *data)
{
	struct seen *seen = data;

	seen->records++;
	seen->ends += branch->flags & WM_BRANCH_EVENT && branch->event == WM_TRAIL_EVENT_END;
	return 0;
}

static void loop_reads_all(enum wm_trail_origin origin)
{
	struct wm_trail_options options = WM_TRAIL_OPTIONS_INIT;
	struct seen seen = { 0 };
	struct wm_trail_status status;
	int fd;

	options.bytes = 1 << 20;
	options.origin = origin;
	options.policy = WM_POLICY_BLOCK;
	subject_launch("t", &options);
	fd = wm_trail_fd(trail);
	do {
		cr_assert_eq(is_readable(fd, WAIT_MS), 1);
		cr_assert_eq(wm_trail_read(trail, see, &seen), 0);
		status = subject_status();
	} while (status.state == WM_TRAIL_STATE_LIVE);
	cr_assert_eq(wm_trail_read(trail, see, &seen), 0);
	cr_expect_eq(status.state, WM_TRAIL_STATE_OVER);
	cr_expect_eq(status.lost, 0);
	cr_expect_gt(seen.records, TURNS);
	cr_expect_eq(seen.records, subject_status().read);
	cr_expect_eq(seen.ends, 1);
	cr_expect_eq(is_readable(fd, 0), 1, "it stays readable once the trail is over");
	cr_expect_eq(wm_trail_fd(trail), fd);
}

Test(trail_fd, loop_reads_all_records_of_steps_and_sees_the_end)
{
	loop_reads_all(TRAIL_ORIGIN_ORACLE);
}

Test(trail_fd, loop_reads_all_records_of_soft_and_sees_the_end)
{
	loop_reads_all(WM_TRAIL_ORIGIN_SOFT);
}

/* A program that runs a little, waits for an order, and runs a little again. */
static int orders[2], answers[2];

static void runs(void)
{
	char order;

	close(orders[1]);
	while (read(orders[0], &order, 1) == 1)
		if (write(answers[1], &order, 1) != 1)
			break;
	_exit(0);
}

static void order(void)
{
	char answer;

	cr_assert_eq(write(orders[1], "x", 1), 1);
	cr_assert_eq(read(answers[0], &answer, 1), 1);
}

Test(trail_fd, fd_is_readable_only_while_soft_program_runs)
{
	struct wm_trail_options options = WM_TRAIL_OPTIONS_INIT;
	struct seen seen = { 0 };
	int fd, status;

	cr_assert_eq(pipe(orders), 0);
	cr_assert_eq(pipe(answers), 0);
	child = fork();
	if (!child)
		runs();
	close(orders[0]);
	options.origin = WM_TRAIL_ORIGIN_SOFT;
	cr_assert_eq(wm_trail_open(&trail, child, &options), 0, "%s", wm_trail_detail(NULL));
	fd = wm_trail_fd(trail);
	for (int i = 0; i < 3; i++) {
		uint64_t before;

		/* the records up to the read(2) that it is in */
		cr_assert(AWAIT(!wm_trail_read(trail, see, &seen) && !is_readable(fd, QUIET_MS)));
		before = seen.records;
		order();
		cr_expect_eq(is_readable(fd, WAIT_MS), 1);
		cr_assert_eq(wm_trail_read(trail, see, &seen), 0);
		cr_expect_gt(seen.records, before);
	}
	close(orders[1]);
	while (subject_status().state == WM_TRAIL_STATE_LIVE) {
		cr_assert_eq(is_readable(fd, WAIT_MS), 1);
		cr_assert_eq(wm_trail_read(trail, see, &seen), 0);
	}
	cr_expect_eq(waitpid(child, &status, 0), child);
	child = 0;
}

Test(trail_fd, fd_stays_readable_after_ended_read)
{
	struct subject_drained drained = { .most = 3 };
	struct wm_trail_options options = WM_TRAIL_OPTIONS_INIT;
	struct wm_trail_cursor *cursor;
	pid_t forked;
	int fd, status;

	options.origin = TRAIL_ORIGIN_ORACLE;
	subject_launch("t", &options);
	fd = wm_trail_fd(trail);
	cr_expect_eq(is_readable(fd, WAIT_MS), 1);
	cr_assert(AWAIT(subject_status().branches > 10));
	cr_assert_eq(wm_trail_read(trail, subject_keep, &drained), 42);
	cr_expect_eq(is_readable(fd, 0), 1);
	forked = fork();
	if (!forked)
		_exit(wm_trail_fd(trail) != -ECHILD);
	cr_expect_eq(waitpid(forked, &status, 0), forked);
	cr_expect_eq(status, 0);
	cr_assert_eq(wm_trail_cursor_open(&cursor, trail, 0), 0);
	wm_trail_cursor_close(cursor);
	cr_expect_eq(wm_trail_fd(NULL), -EINVAL);
	free(drained.all);
}
