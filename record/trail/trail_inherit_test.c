/* SPDX-License-Identifier: MIT */
/* Trails with the processes that a program makes: WM_FOLLOW_CHILDREN. */
#include "base/testing/await.h"
#include "record/trail/testing/subject.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS_MAX 16
#define FLAGS (WM_TRAIL_FLAG_SIGNALS | WM_TRAIL_FLAG_SYSCALLS)

static void begin(void)
{
	setenv("WAYMARK_ENGINE", ENGINE, 1);
}

TestSuite(trail_inherit, .init = begin, .fini = subject_end, .timeout = 120);

static struct wm_trail_options options = { .size = sizeof(options),
					   .flags = FLAGS,
					   .follow = WM_FOLLOW_CHILDREN };

/* Put the program's first thread first. */
static void first_first(pid_t *tids, int count)
{
	for (int i = 1; i < count; i++)
		if (tids[i] == subject_status().pid) {
			tids[i] = tids[0];
			tids[0] = subject_status().pid;
		}
}

/* What came of a program, with its children: the threads are in tids[]. How many. */
static int all_of(const char *mode, pid_t tids[THREADS_MAX])
{
	int status, count;

	subject_launch_of(OFFSPRING, mode, &options);
	status = subject_ended();
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 4, "%#x", (unsigned int)status);
	count = wm_trail_threads(trail, tids, THREADS_MAX);
	cr_assert(count > 0 && count <= THREADS_MAX, "%d", count);
	first_first(tids, count);
	cr_expect_eq(subject_status().live, 0);
	cr_expect_eq(subject_status().state, WM_TRAIL_STATE_OVER);
	cr_expect_eq(subject_status().unfollowed, 0);
	return count;
}

static struct wm_branch of(pid_t tid, uint64_t index)
{
	struct wm_branch branch = { .size = sizeof(branch) };

	cr_assert_eq(wm_trail_get(trail, tid, index, &branch), 1);
	return branch;
}

/* The first thread's events of a fork; the last names *made. */
static int forks(pid_t tid, pid_t *made)
{
	int count = 0;

	for (int64_t i = 0; i < wm_trail_records(trail, tid); i++) {
		struct wm_branch branch = of(tid, (uint64_t)i);

		if (!(branch.flags & WM_BRANCH_EVENT) || branch.event != WM_TRAIL_EVENT_FORK)
			continue;
		count++;
		*made = (pid_t)branch.values[0];
	}
	return count;
}

Test(trail_inherit, a_child_has_records_that_tell_whose_they_are)
{
	pid_t tids[THREADS_MAX], parent, made = 0;

	cr_expect_eq(all_of("f", tids), 2);
	parent = subject_status().pid;
	cr_expect_eq(tids[0], parent);
	cr_expect_eq(forks(tids[0], &made), 1);
	cr_expect_eq(made, tids[1]);
	for (int i = 0; i < 2; i++)
		for (int64_t j = 0; j < wm_trail_records(trail, tids[i]); j++) {
			cr_assert_eq(of(tids[i], (uint64_t)j).pid, tids[i]);
			cr_assert_eq(of(tids[i], (uint64_t)j).tid, tids[i]);
		}
	cr_expect_eq(of(tids[0], 0).values[1], 4);
	cr_expect_eq(of(tids[1], 0).event, WM_TRAIL_EVENT_END);
	cr_expect_eq(of(tids[1], 0).values[1], 3);
}

Test(trail_inherit, a_childs_thread_is_of_the_childs_process)
{
	pid_t tids[THREADS_MAX];
	int others = 0, count = all_of("t", tids);

	cr_expect_eq(count, 4); /* the program, a child, a thread of that, and what it forks */
	for (int i = 0; i < count; i++) {
		struct wm_branch newest = of(tids[i], 0);

		cr_expect_eq(newest.tid, tids[i]);
		others += newest.tid != newest.pid;
		if (newest.tid != newest.pid)
			cr_expect(newest.pid != tids[0] && newest.pid != newest.tid);
	}
	cr_expect_eq(others, 1);
}

Test(trail_inherit, a_cursor_knows_the_childs_own_modules)
{
	struct wm_trail_step step = { .size = sizeof(step) };
	struct wm_trail_cursor *cursor;
	pid_t tids[THREADS_MAX];
	int named = 0, executed = 0;

	cr_expect_eq(all_of("x", tids), 2);
	cr_assert_eq(wm_trail_cursor_open(&cursor, trail, tids[1]), 0);
	wm_trail_cursor_seek(cursor, WM_TRAIL_OLDEST);
	while (wm_trail_cursor_next(cursor, WM_TRAIL_UNIT_BLOCKS, &step) > 0) {
		cr_assert_eq(step.branch.pid, tids[1]);
		if (step.branch.flags & WM_BRANCH_EVENT)
			executed |= step.branch.event == WM_TRAIL_EVENT_EXEC;
		else if (executed && step.function && !strcmp(step.function, "begin_here"))
			named = 1;
	}
	cr_expect(executed);
	cr_expect(named);
	wm_trail_cursor_close(cursor);
}

Test(trail_inherit, children_are_left_alone_where_nobody_asks)
{
	pid_t tids[THREADS_MAX], made = 0;

	options.follow = WM_FOLLOW_DEFAULT;
	cr_expect_eq(all_of("f", tids), 1);
	cr_expect_eq(forks(tids[0], &made), 1);
	cr_expect_gt(made, 0);
}

Test(trail_inherit, closing_lets_parent_and_child_go)
{
	pid_t tids[2];
	int status;

	subject_launch_of(OFFSPRING, "w", &options);
	cr_assert(AWAIT(wm_trail_threads(trail, tids, 2) >= 2));
	cr_expect_eq(wm_trail_threads(trail, NULL, 0), 2);
	first_first(tids, 2);
	wm_trail_close(trail);
	trail = NULL;
	subject_runs_on(tids[1]);
	cr_expect_eq(waitpid(child, &status, WNOHANG), 0, "%#x", (unsigned int)status);
}
