/* SPDX-License-Identifier: MIT */
/* Trails as a debugger has them, of programs that are stepped through. */
#include "base/testing/await.h"
#include "record/trail/testing/subject.h"

#include "target/process/target.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(trail, .fini = subject_end, .timeout = 120);

/* ---- records ---- */

Test(trail, gives_by_index_from_the_newest_what_it_gives_when_drained)
{
	struct subject_drained drained = { 0 };
	struct wm_branch *newest;
	int64_t count;

	subject_launch_of(STEPS, "c", NULL);
	cr_assert(WIFEXITED(subject_ended()));
	count = wm_trail_records(trail, 0);
	cr_assert_gt(count, 10);
	newest = calloc((size_t)count, sizeof(*newest));
	for (int64_t i = 0; i < count; i++)
		newest[i] = subject_get((uint64_t)i);
	cr_expect_eq(wm_trail_get(trail, 0, (uint64_t)count, &newest[0]), 0);
	newest[0] = subject_get(0);
	cr_expect_eq(wm_trail_read(trail, subject_keep, &drained), 0);
	cr_assert_eq(drained.count, (size_t)count);
	for (int64_t i = 0; i < count; i++)
		subject_same(&newest[count - 1 - i], &drained.all[i]);
	cr_expect_eq(subject_status().read, (uint64_t)count);
	/* nothing is left, nor a thread that has ended */
	cr_expect_eq(wm_trail_read(trail, subject_keep, &drained), 0);
	cr_expect_eq(drained.count, (size_t)count);
	cr_expect_eq(wm_trail_records(trail, 0), -ESRCH);
	free(newest);
	free(drained.all);
}

Test(trail, tells_branches_by_what_they_are)
{
	uint64_t callee = subject_address(STEPS, "callee"),
		 back = subject_address(STEPS, "after_call");
	int calls = 0, returns = 0, indirect = 0, conditional = 0, straight = 0;
	struct wm_branch branch, older;

	subject_launch_of(STEPS, "c", NULL);
	subject_ended();
	branch = subject_get(0);
	cr_expect_eq(branch.flags, WM_BRANCH_EVENT);
	cr_expect_eq(branch.event, WM_TRAIL_EVENT_END);
	cr_expect_eq(branch.values[0], 0);
	cr_expect_eq(branch.values[1], 7);
	for (int64_t i = wm_trail_records(trail, 0) - 1; i > 0; i--) {
		branch = subject_get((uint64_t)i);
		calls += !!(branch.flags & WM_BRANCH_CALL);
		returns += !!(branch.flags & WM_BRANCH_RETURN);
		indirect += branch.flags == (WM_BRANCH_CALL | WM_BRANCH_INDIRECT) &&
			    branch.to == callee;
		conditional += !!(branch.flags & WM_BRANCH_CONDITIONAL);
		straight += !!(branch.flags & WM_BRANCH_NOT_TAKEN);
		if (i == wm_trail_records(trail, 0) - 1)
			continue;
		older = subject_get((uint64_t)i + 1);
		cr_expect_eq(branch.from, older.last, "each begins where the one before led to");
	}
	cr_expect_eq(calls, 6);
	cr_expect_eq(returns, 6);
	cr_expect_eq(indirect, 1);
	cr_expect_eq(conditional, 2);
	cr_expect_eq(straight, 5);
	cr_expect_gt(back, 0);
}

Test(trail, drains_in_pieces_that_fit_together)
{
	struct subject_drained drained = { .most = 3 };
	int result;

	subject_launch_of(STEPS, "l", NULL);
	subject_ended();
	while ((result = wm_trail_read(trail, subject_keep, &drained)) == 42)
		drained.most += 3;
	cr_expect_eq(result, 0);
	for (size_t i = 1; i + 1 < drained.count; i++)
		cr_assert_eq(drained.all[i].from, drained.all[i - 1].last);
	cr_expect_gt(drained.count, 1000);
	free(drained.all);
}

Test(trail, has_no_records_once_cleared_and_goes_on)
{
	struct subject_drained drained = { 0 };
	int status;

	subject_launch("e", NULL);
	cr_assert(AWAIT(wm_trail_records(trail, 0) >= 100));
	kill(child, SIGSTOP);
	cr_assert_eq(waitpid(child, &status, WUNTRACED), child);
	cr_assert(WIFSTOPPED(status));
	usleep(300000); /* nothing shows when the recorder's last records have come */
	cr_assert_eq(wm_trail_clear(trail), 0);
	cr_expect_eq(wm_trail_records(trail, 0), 0);
	cr_expect_eq(wm_trail_read(trail, subject_keep, &drained), 0);
	cr_expect_eq(drained.count, 0);
	cr_expect_eq(subject_status().state, WM_TRAIL_STATE_LIVE);
	kill(child, SIGCONT);
	cr_assert(AWAIT(wm_trail_records(trail, 0) >= 10));
	kill(child, SIGKILL);
	cr_expect(WIFSIGNALED(subject_ended()));
}

Test(trail, ends_where_the_program_crashed)
{
	struct wm_branch branch;

	subject_launch("s", NULL);
	cr_expect_eq(WTERMSIG(subject_ended()), SIGSEGV);
	branch = subject_get(0);
	cr_expect_eq(branch.event, WM_TRAIL_EVENT_END);
	cr_expect_eq(branch.values[0], 1);
	cr_expect_eq(branch.values[1], SIGSEGV);
	branch = subject_get(1);
	cr_expect_eq(branch.flags, WM_BRANCH_CALL);
	cr_expect_eq(branch.last + 2, subject_address(PROGRAM, "fault"));
}

/* ---- what becomes of a trail ---- */

Test(trail, goes_on_in_the_program_that_is_executed)
{
	int execs = 0, ends = 0, branches = 0;

	subject_launch("x", NULL);
	cr_expect_eq(WEXITSTATUS(subject_ended()), 7);
	for (int64_t i = wm_trail_records(trail, 0); i--;) {
		struct wm_branch branch = subject_get((uint64_t)i);
		int is_event = branch.flags == WM_BRANCH_EVENT;

		execs += is_event && branch.event == WM_TRAIL_EVENT_EXEC;
		ends += is_event && branch.event == WM_TRAIL_EVENT_END;
		branches += !is_event && execs;
	}
	cr_expect_eq(execs, 1);
	cr_expect_eq(ends, 1);
	cr_expect_gt(branches, 3);
}

Test(trail, leaves_children_alone)
{
	subject_launch("f", NULL);
	cr_expect_eq(WEXITSTATUS(subject_ended()), 7);
	cr_expect_eq(wm_trail_threads(trail, NULL, 0), 1);
	cr_expect_eq(wm_trail_threads(trail, NULL, 1), -EINVAL);
	cr_expect_eq(subject_get(0).event, WM_TRAIL_EVENT_END);
}

Test(trail, has_threads_that_end_each_with_an_event)
{
	pid_t tids[64];
	int count, ends = 0;

	subject_launch_of(THREADS, NULL, NULL);
	subject_ended();
	count = wm_trail_threads(trail, tids, 64);
	cr_expect_eq(count, 4, "%d", count);
	for (int i = 0; i < count; i++) {
		struct wm_branch branch = { .size = sizeof(branch) };

		cr_assert_eq(wm_trail_get(trail, tids[i], 0, &branch), 1);
		ends += branch.event == WM_TRAIL_EVENT_END && branch.tid == tids[i];
	}
	cr_expect_eq(ends, count);
	cr_expect_eq(tids[0], subject_status().pid);
	cr_expect_eq(wm_trail_records(trail, 1), -ESRCH);
	cr_expect_not_null(strstr(wm_trail_detail(trail), "tid 1"));
}

Test(trail, lets_a_process_go_on_when_it_is_closed)
{
	struct wm_trail_options options = { .size = sizeof(options) };
	int status;

	subject_launch("e", NULL);
	wm_trail_close(trail);
	trail = NULL;
	subject_runs_on(child);
	cr_expect_eq(waitpid(child, &status, WNOHANG), 0);
	/* and may be taken again */
	cr_assert_eq(wm_trail_open(&trail, child, subject_by_steps(&options)), 0, "%s",
		     wm_trail_detail(NULL));
	cr_assert(AWAIT(wm_trail_records(trail, 0) >= 50));
	wm_trail_close(trail);
	trail = NULL;
	subject_runs_on(child);
	cr_expect_eq(waitpid(child, &status, WNOHANG), 0);
}

/* ---- one thread alone ---- */

static int reported; /* a byte written here goes to the thread */

/* The thread that is not the first. 0: not there yet. */
static pid_t other_thread(void)
{
	struct dirent *entry;
	char path[64];
	pid_t tid = 0;
	DIR *list;

	snprintf(path, sizeof(path), "/proc/%d/task", child);
	list = opendir(path);
	cr_assert_not_null(list);
	while ((entry = readdir(list)))
		if (atoi(entry->d_name) > 0 && atoi(entry->d_name) != child)
			tid = atoi(entry->d_name);
	closedir(list);
	return tid;
}

/* A process of two threads; the second waits for a byte. Returns its id. */
static pid_t second_thread(void)
{
	int pipes[2];
	pid_t tid;

	cr_assert_eq(pipe(pipes), 0);
	child = fork();
	if (!child) {
		dup2(pipes[0], 0);
		execl(PROGRAM, PROGRAM, "m", NULL);
		_exit(127);
	}
	close(pipes[0]);
	reported = pipes[1];
	cr_assert(AWAIT(tid = other_thread()));
	return tid;
}

static void open_thread(pid_t tid)
{
	struct wm_trail_options options = {
		.size = sizeof(options), .flags = WM_TRAIL_FLAG_THREAD | WM_TRAIL_FLAG_SYSCALLS
	};

	cr_assert_eq(wm_trail_open(&trail, tid, subject_by_steps(&options)), 0, "%s",
		     wm_trail_detail(NULL));
	cr_expect_eq(wm_trail_threads(trail, NULL, 0), 1);
	cr_expect_gt(target_status_number(tid, "TracerPid"), 0);
	cr_expect_eq(target_status_number(child, "TracerPid"), 0);
}

Test(trail, takes_one_thread_and_leaves_the_others_alone)
{
	struct wm_trail_options options = { .size = sizeof(options) };
	pid_t tid = second_thread();
	struct wm_branch branch;

	/* by mistake */
	cr_expect_eq(wm_trail_open(&trail, tid, subject_by_steps(&options)), -EINVAL);
	cr_expect_not_null(strstr(wm_trail_detail(NULL), "WM_TRAIL_FLAG_THREAD"));
	open_thread(tid);
	cr_expect_eq(subject_status().pid, child);
	cr_assert_eq(write(reported, "e", 1), 1);
	cr_assert_eq(wm_trail_wait(trail, WAIT_MS), 1);
	branch = subject_get(0);
	cr_expect_eq(branch.event, WM_TRAIL_EVENT_END);
	cr_expect_eq(branch.values[1], 3);
	cr_expect_eq(branch.tid, tid);
	cr_expect_eq(waitpid(child, NULL, WNOHANG), 0, "its process lives on");
	close(reported);
}

/* It takes its process's id then. */
Test(trail, follows_a_thread_that_executes_a_program)
{
	pid_t tid = second_thread();
	int execs = 0, branches = 0;

	open_thread(tid);
	cr_assert_eq(write(reported, "x", 1), 1);
	cr_expect_eq(WEXITSTATUS(subject_ended()), 7);
	for (int64_t i = wm_trail_records(trail, 0); i--;) {
		struct wm_branch branch = subject_get((uint64_t)i);

		execs += branch.flags == WM_BRANCH_EVENT && branch.event == WM_TRAIL_EVENT_EXEC;
		branches += execs && branch.flags != WM_BRANCH_EVENT;
	}
	cr_expect_eq(execs, 1);
	cr_expect_gt(branches, 3);
	cr_expect_eq(subject_get(0).event, WM_TRAIL_EVENT_END);
	close(reported);
}
