/* SPDX-License-Identifier: MIT */
/*
 * Trails of programs that the engine translates, as a debugger uses them: single steps must give
 * the same records.
 */
#include "record/trail/trail.h"
#include "base/testing/await.h"
#include "record/trail/testing/subject.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/session.h>

static void begin(void)
{
	setenv("WAYMARK_ENGINE", ENGINE, 1);
}

TestSuite(trail_soft, .init = begin, .fini = subject_end, .timeout = 120);

/* A program's records without fall-throughs: where blocks are split depends on the origin. */
static struct subject_drained recorded(const char *program, const char *mode,
				       const struct wm_trail_options *options)
{
	struct subject_drained drained = { 0 };
	size_t kept = 0;

	subject_launch_of(program, mode, options);
	subject_ended();
	cr_expect_eq(subject_status().state, WM_TRAIL_STATE_OVER);
	cr_expect_eq(wm_trail_read(trail, subject_keep, &drained), 0);
	for (size_t i = 0; i < drained.count; i++)
		if (drained.all[i].flags != WM_BRANCH_FALL)
			drained.all[kept++] = drained.all[i];
	drained.count = kept;
	wm_trail_close(trail);
	trail = NULL;
	return drained;
}

static void same(const char *mode, const struct subject_drained *soft,
		 const struct subject_drained *step)
{
	cr_expect_eq(soft->count, step->count, "%s: %zu by soft, %zu by step", mode, soft->count,
		     step->count);
	for (size_t i = 0; i < soft->count && i < step->count; i++) {
		const struct wm_branch *a = &soft->all[i], *b = &step->all[i];
		int is_same = a->from == b->from && a->to == b->to && a->flags == b->flags &&
			      a->event == b->event && a->values[0] == b->values[0];

		cr_expect(
			is_same,
			"%s: record %zu: %#lx to %#lx, %#x, event %u, by step %#lx to %#lx, %#x, %u",
			mode, i, (unsigned long)a->from, (unsigned long)a->to, a->flags, a->event,
			(unsigned long)b->from, (unsigned long)b->to, b->flags, b->event);
		if (!is_same)
			return;
	}
}

Test(trail_soft, soft_records_equal_single_steps)
{
	static const char *const modes[] = { "l", "c", "r", "s", "p", "x" };

	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		struct wm_trail_options options = { .size = sizeof(options),
						    .flags = WM_TRAIL_FLAG_SIGNALS |
							     WM_TRAIL_FLAG_SYSCALLS,
						    .origin = TRAIL_ORIGIN_ORACLE };
		struct subject_drained step = recorded(STEPS, modes[i], &options), soft;

		options.origin = WM_TRAIL_ORIGIN_SOFT;
		soft = recorded(STEPS, modes[i], &options);
		same(modes[i], &soft, &step);
		cr_expect_gt(soft.count, 1);
		free(step.all);
		free(soft.all);
	}
}

Test(trail_soft, launch_without_origin_takes_soft)
{
	struct wm_branch branch;

	subject_launch_of(STEPS, "c", NULL);
	cr_expect_eq(subject_status().origin, WM_TRAIL_ORIGIN_SOFT);
	cr_assert(WIFEXITED(subject_ended()));
	branch = subject_get(0);
	cr_expect_eq(branch.event, WM_TRAIL_EVENT_END);
}

static void kept_and_lost_are_what_ran(enum wm_policy policy)
{
	static const uint64_t bytes[] = {
		UINT64_C(4) << 20, SMALL, SMALL + 4096, 49152, 65535, 65536
	};
	uint64_t ran = 0;

	for (size_t i = 0; i < sizeof(bytes) / sizeof(*bytes); i++) {
		struct wm_trail_options options = { .size = sizeof(options),
						    .bytes = bytes[i],
						    .origin = WM_TRAIL_ORIGIN_SOFT,
						    .policy = policy };
		struct wm_trail_status status;

		subject_launch("t", &options);
		subject_ended();
		status = subject_status();
		cr_expect_eq(status.bytes, bytes[i] / 4096 * 4096);
		if (!i)
			ran = status.branches;
		cr_expect_eq(status.branches + status.lost, ran, "%lu bytes: %lu and %lu of %lu",
			     bytes[i], status.branches, status.lost, ran);
		cr_expect_gt(status.branches, 3000);
		cr_expect_eq(!i, !status.lost);
		wm_trail_close(trail);
		trail = NULL;
	}
}

Test(trail_soft, kept_and_lost_branches_are_what_ran)
{
	kept_and_lost_are_what_ran(WM_POLICY_DISCARD);
}

Test(trail_soft, cyclic_kept_and_lost_branches_are_what_ran)
{
	kept_and_lost_are_what_ran(WM_POLICY_CYCLIC);
}

Test(trail_soft, launch_without_engine_returns_error_with_detail)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .origin = WM_TRAIL_ORIGIN_SOFT };
	char *argv[] = { (char *)STEPS, (char *)"c", NULL };

	setenv("WAYMARK_ENGINE", "/nowhere", 1);
	cr_expect_eq(wm_trail_launch(&trail, argv, &options), -WM_E_NO_ENGINE);
	cr_expect_not_null(strstr(wm_trail_detail(NULL), "/nowhere"), "%s", wm_trail_detail(NULL));
	setenv("WAYMARK_ENGINE", STEPS, 1);
	cr_expect_eq(wm_trail_launch(&trail, argv, &options), -WM_E_ENGINE_FILE);
	cr_expect_not_null(strstr(wm_trail_detail(NULL), STEPS), "%s", wm_trail_detail(NULL));
	setenv("WAYMARK_ENGINE", ENGINE, 1);
	options.flags = WM_TRAIL_FLAG_THREAD;
	cr_expect_eq(wm_trail_launch(&trail, argv, &options), -WM_E_TRAIL_ASKED);
	cr_expect_eq(waitpid(-1, NULL, WNOHANG), -1, "a child is left");
}

Test(trail_soft, launch_takes_engine_of_options)
{
	char engine[] = ENGINE;
	struct wm_trail_options options = { .size = sizeof(options),
					    .origin = WM_TRAIL_ORIGIN_SOFT,
					    .engine_path = engine };
	char *argv[] = { (char *)STEPS, (char *)"c", NULL };

	setenv("WAYMARK_ENGINE", "/nowhere", 1);
	subject_launch_of(STEPS, "c", &options);
	engine[1] = 'x'; /* it was copied */
	cr_assert(WIFEXITED(subject_ended()));
	cr_expect_gt(subject_status().branches, 0);
	wm_trail_close(trail);
	trail = NULL;
	setenv("WAYMARK_ENGINE", ENGINE, 1);
	options.engine_path = "/no/engine.so";
	cr_expect_eq(wm_trail_launch(&trail, argv, &options), -WM_E_NO_ENGINE);
	cr_expect_not_null(strstr(wm_trail_detail(NULL), "/no/engine.so"), "%s",
			   wm_trail_detail(NULL));
	options.engine_path = "engine.so";
	cr_expect_eq(wm_trail_launch(&trail, argv, &options), -EINVAL);
	cr_expect_not_null(strstr(wm_trail_detail(NULL), "engine_path"), "%s",
			   wm_trail_detail(NULL));
}

Test(trail_soft, session_takes_engine_of_options)
{
	char engine[] = ENGINE, folder[] = "/tmp/waymark-test-XXXXXX", command[128];
	struct wm_session_options options = { .size = sizeof(options), .engine_path = engine };
	struct wm_session_status status = { .size = sizeof(status) };
	char *argv[] = { (char *)STEPS, (char *)"c", NULL };
	struct wm_session *session;

	setenv("WAYMARK_ENGINE", "/nowhere", 1);
	cr_assert_not_null(mkdtemp(folder));
	cr_assert_eq(wm_session_open(&session, &options), 0);
	engine[1] = 'x'; /* it was copied */
	cr_assert_eq(wm_session_add(session, "trail/soft/"), 0);
	cr_assert_eq(wm_session_output(session, folder), 0, "%s", wm_session_detail(session));
	child = wm_session_launch(session, argv);
	cr_assert_gt(child, 0, "%s", wm_session_detail(session));
	cr_assert_eq(wm_session_start(session), 0, "%s", wm_session_detail(session));
	cr_assert(AWAIT(wm_session_wait(session, 10) == 0));
	cr_expect_eq(wm_session_stop(session), 0, "%s", wm_session_detail(session));
	cr_assert_eq(wm_session_status_get(session, &status), 0);
	cr_expect_gt(status.trail_blocks, 0);
	wm_session_close(session);
	snprintf(command, sizeof(command), "/bin/rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

/* ---- a program that is running already ---- */

#define CALLS 1000

static volatile int counted;
static int orders[2], answers[2];

__attribute__((noinline)) static void counts(void)
{
	counted++;
}

/* At each order, make CALLS calls and answer. When no more orders can come, exit with 9. */
static void runs(void)
{
	char byte;

	close(orders[1]);
	while (read(orders[0], &byte, 1) == 1) {
		for (int i = 0; i < CALLS; i++)
			counts();
		byte = counted % CALLS ? 'n' : 'y';
		if (write(answers[1], &byte, 1) != 1)
			_exit(1);
	}
	_exit(9);
}

static void start_running(void)
{
	cr_assert_eq(pipe(orders), 0);
	cr_assert_eq(pipe(answers), 0);
	child = fork();
	if (!child)
		runs();
	close(orders[0]);
}

static void order(void)
{
	char byte = 0;

	cr_assert_eq(write(orders[1], "x", 1), 1);
	cr_assert_eq(read(answers[0], &byte, 1), 1);
	cr_assert_eq(byte, 'y');
}

static void ends_well(void)
{
	int status;

	close(orders[1]);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 9, "%#x", (unsigned int)status);
	child = 0;
}

static int calls_in(const struct subject_drained *drained)
{
	int calls = 0;

	for (size_t i = 0; i < drained->count; i++)
		calls += !(drained->all[i].flags & WM_BRANCH_EVENT) &&
			 drained->all[i].to == (uint64_t)(uintptr_t)counts;
	return calls;
}

Test(trail_soft, open_running_program_records_to_its_end)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .origin = WM_TRAIL_ORIGIN_SOFT };
	struct subject_drained drained = { 0 };

	start_running();
	order();
	cr_assert_eq(wm_trail_open(&trail, child, &options), 0, "%s", wm_trail_detail(NULL));
	cr_expect_eq(subject_status().origin, WM_TRAIL_ORIGIN_SOFT);
	order();
	order();
	ends_well();
	cr_assert_eq(wm_trail_wait(trail, WAIT_MS), 1);
	cr_expect_eq(wm_trail_read(trail, subject_keep, &drained), 0);
	cr_expect_eq(calls_in(&drained), 2 * CALLS, "%d", calls_in(&drained));
	cr_assert_gt(drained.count, 0);
	cr_expect_eq(drained.all[drained.count - 1].event, WM_TRAIL_EVENT_END);
	cr_expect_eq(drained.all[drained.count - 1].values[1], 9);
	free(drained.all);
}

Test(trail_soft, flush_makes_running_program_readable_up_to_now)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .origin = WM_TRAIL_ORIGIN_SOFT };

	start_running();
	for (int policy = WM_POLICY_CYCLIC; policy <= WM_POLICY_DISCARD; policy++) {
		options.policy = (enum wm_policy)policy;
		cr_assert_eq(wm_trail_open(&trail, child, &options), 0, "%s",
			     wm_trail_detail(NULL));
		for (int round = 0; round < 3; round++) {
			struct subject_drained drained = { 0 };

			order();
			cr_assert_eq(wm_trail_flush(trail, WAIT_MS), 1);
			cr_expect_eq(wm_trail_read(trail, subject_keep, &drained), 0);
			cr_expect_eq(calls_in(&drained), CALLS, "policy %d, round %d: %d", policy,
				     round, calls_in(&drained));
			for (size_t i = 0; i < drained.count; i++)
				cr_expect(!(drained.all[i].flags & WM_BRANCH_EVENT) ||
					  drained.all[i].event != WM_TRAIL_EVENT_LOST);
			free(drained.all);
		}
		wm_trail_close(trail);
		trail = NULL;
	}
	ends_well();
}

Test(trail_soft, clear_drops_earlier_records)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .origin = WM_TRAIL_ORIGIN_SOFT };
	struct subject_drained drained = { 0 };

	start_running();
	cr_assert_eq(wm_trail_open(&trail, child, &options), 0, "%s", wm_trail_detail(NULL));
	order();
	cr_assert_eq(wm_trail_flush(trail, WAIT_MS), 1);
	order();
	cr_assert_eq(wm_trail_clear(trail), 0);
	order();
	cr_assert_eq(wm_trail_flush(trail, WAIT_MS), 1);
	cr_expect_eq(wm_trail_read(trail, subject_keep, &drained), 0);
	cr_expect_eq(calls_in(&drained), CALLS, "%d", calls_in(&drained));
	free(drained.all);
	ends_well();
}

Test(trail_soft, records_of_running_program_are_counted_at_first_call)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .origin = WM_TRAIL_ORIGIN_SOFT };

	start_running();
	cr_assert_eq(wm_trail_open(&trail, child, &options), 0, "%s", wm_trail_detail(NULL));
	order();
	cr_expect_geq(wm_trail_records(trail, 0), CALLS);
	ends_well();
}

/* ---- a program that computes without system calls ---- */

#define TURNS_MANY (UINT64_C(1) << 27) /* more than any ring has room for */

static volatile uint64_t *turns;

static void start_computing(void)
{
	turns = mmap(NULL, sizeof(*turns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	cr_assert_neq(turns, MAP_FAILED);
	child = fork();
	if (!child)
		for (;;)
			++*turns;
	cr_assert(AWAIT(*turns));
}

/* The process that traces for the test: its child beside the program. */
static pid_t recorder(void)
{
	char path[64], list[256] = "", *at = list;
	FILE *file;
	long pid;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	file = fopen(path, "re");
	cr_assert_not_null(file);
	cr_assert_not_null(fgets(list, sizeof(list), file));
	fclose(file);
	while ((pid = strtol(at, &at, 10)) != 0)
		if (pid != child)
			return (pid_t)pid;
	return 0;
}

Test(trail_soft, cyclic_program_runs_while_recorder_is_stopped)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .origin = WM_TRAIL_ORIGIN_SOFT };
	uint64_t before;
	pid_t pid;

	start_computing();
	cr_assert_eq(wm_trail_open(&trail, child, &options), 0, "%s", wm_trail_detail(NULL));
	cr_assert_eq(wm_trail_flush(trail, WAIT_MS), 1);
	pid = recorder();
	cr_assert_gt(pid, 0);
	kill(pid, SIGSTOP);
	before = *turns;
	cr_expect(AWAIT(*turns - before > TURNS_MANY), "%llu turns",
		  (unsigned long long)(*turns - before));
	kill(pid, SIGCONT);
	cr_expect_eq(wm_trail_flush(trail, WAIT_MS), 1);
	cr_expect_gt(subject_status().branches, 0);
}

Test(trail_soft, blocked_program_continues_after_close)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .bytes = SMALL,
					    .origin = WM_TRAIL_ORIGIN_SOFT,
					    .policy = WM_POLICY_BLOCK };
	uint64_t before;

	start_computing();
	cr_assert_eq(wm_trail_open(&trail, child, &options), 0, "%s", wm_trail_detail(NULL));
	/* until there is no room for more */
	cr_assert(AWAIT(wm_trail_flush(trail, -1) == 0));
	wm_trail_close(trail);
	trail = NULL;
	before = *turns;
	cr_expect(AWAIT(*turns - before > TURNS_MANY));
}

/* With WM_POLICY_BLOCK, the program waits for room when this returns. */
static int record_computing(enum wm_policy policy)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .bytes = SMALL,
					    .origin = WM_TRAIL_ORIGIN_SOFT,
					    .policy = policy };

	return wm_trail_open(&trail, child, &options) == 0 &&
	       AWAIT(wm_trail_flush(trail, -1) == (policy != WM_POLICY_BLOCK));
}

static void runs_on(const char *who, enum wm_policy policy)
{
	uint64_t before = *turns;

	cr_expect(AWAIT(*turns - before > TURNS_MANY), "%s killed, policy %d: %llu turns", who,
		  policy, (unsigned long long)(*turns - before));
	kill(child, SIGKILL);
	cr_assert_eq(waitpid(child, NULL, 0), child);
	child = 0;
}

static void kill_recorder(enum wm_policy policy)
{
	pid_t pid;

	start_computing();
	cr_assert(record_computing(policy), "%s", wm_trail_detail(trail));
	pid = recorder();
	cr_assert_gt(pid, 0);
	kill(pid, SIGKILL);
	runs_on("recorder", policy);
	wm_trail_close(trail);
	trail = NULL;
}

static void kill_tool(enum wm_policy policy)
{
	int reported[2];
	char byte;
	pid_t tool;

	start_computing();
	cr_assert_eq(pipe(reported), 0);
	tool = fork();
	if (!tool) {
		byte = record_computing(policy) ? 'y' : 'n';
		if (write(reported[1], &byte, 1) == 1)
			pause();
		_exit(1);
	}
	close(reported[1]);
	cr_assert_eq(read(reported[0], &byte, 1), 1);
	cr_assert_eq(byte, 'y');
	close(reported[0]);
	kill(tool, SIGKILL);
	cr_assert_eq(waitpid(tool, NULL, 0), tool);
	runs_on("tool", policy);
}

Test(trail_soft, cyclic_program_continues_after_recorder_is_killed)
{
	kill_recorder(WM_POLICY_CYCLIC);
	kill_tool(WM_POLICY_CYCLIC);
}

Test(trail_soft, blocked_program_continues_after_recorder_is_killed)
{
	kill_recorder(WM_POLICY_BLOCK);
	kill_tool(WM_POLICY_BLOCK);
}

Test(trail_soft, close_lets_program_run_natively)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .origin = WM_TRAIL_ORIGIN_SOFT };
	char path[64], line[512];
	FILE *maps;

	start_running();
	for (int round = 0; round < 3; round++) {
		cr_assert_eq(wm_trail_open(&trail, child, &options), 0, "%s",
			     wm_trail_detail(NULL));
		order();
		wm_trail_close(trail);
		trail = NULL;
		order();
	}
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)child);
	maps = fopen(path, "re");
	cr_assert_not_null(maps);
	while (fgets(line, sizeof(line), maps))
		cr_expect_null(strstr(line, "waymark-trail"), "%s", line);
	fclose(maps);
	ends_well();
}

Test(trail_soft, open_running_program_refuses_unsupported_options)
{
	static const struct {
		uint32_t flag;
		const char *name;
	} lacks[] = { { WM_TRAIL_FLAG_THREAD, "WM_TRAIL_FLAG_THREAD" },
		      { WM_TRAIL_FLAG_KERNEL, "WM_TRAIL_FLAG_KERNEL" } };
	struct wm_trail_options options = { .size = sizeof(options),
					    .origin = WM_TRAIL_ORIGIN_SOFT };
	struct wm_trail *second;

	start_running();
	for (size_t i = 0; i < sizeof(lacks) / sizeof(*lacks); i++) {
		options.flags = lacks[i].flag;
		cr_expect_eq(wm_trail_open(&trail, child, &options), -WM_E_TRAIL_ASKED);
		cr_expect_not_null(strstr(wm_trail_detail(NULL), lacks[i].name), "%s",
				   wm_trail_detail(NULL));
	}
	options.flags = 0;
	options.follow = WM_FOLLOW_CHILDREN;
	cr_expect_eq(wm_trail_open(&trail, child, &options), -WM_E_TRAIL_ASKED);
	cr_expect_not_null(strstr(wm_trail_detail(NULL), "WM_FOLLOW_CHILDREN"), "%s",
			   wm_trail_detail(NULL));
	options.follow = WM_FOLLOW_NONE;
	cr_assert_eq(wm_trail_open(&trail, child, &options), 0, "%s", wm_trail_detail(NULL));
	for (int origin = WM_TRAIL_ORIGIN_AUTO; origin <= WM_TRAIL_ORIGIN_SOFT;
	     origin += WM_TRAIL_ORIGIN_SOFT) {
		options.origin = (enum wm_trail_origin)origin;
		cr_expect_eq(wm_trail_open(&second, child, &options), -EBUSY);
		cr_expect_not_null(strstr(wm_trail_detail(NULL), "recorded already"), "%s",
				   wm_trail_detail(NULL));
	}
	options.origin = TRAIL_ORIGIN_ORACLE;
	cr_expect_eq(wm_trail_open(&second, child, &options), -EBUSY);
	order();
	ends_well();
}
