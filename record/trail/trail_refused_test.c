/* SPDX-License-Identifier: MIT */
/* Refusals of trails, with their words; and misuse. */
#include "record/trail/trail.h"
#include "base/testing/await.h"
#include "record/trail/testing/subject.h"

#include "target/process/target.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

TestSuite(trail_refused, .fini = subject_end, .timeout = 120);

/* ---- refused ---- */

static void refused(const char *what, int expected, const struct wm_trail_options *options)
{
	int err = wm_trail_open(&trail, child, options);

	cr_expect_eq(err, expected, "%s: %d", what, err);
	cr_expect_null(trail);
	cr_expect_not_null(strstr(wm_trail_detail(NULL), what), "%s: %s", what,
			   wm_trail_detail(NULL));
}

static pid_t sleeper(void)
{
	pid_t pid = fork();

	if (!pid)
		for (;;)
			pause();
	return child = pid;
}

Test(trail_refused, refuses_options_that_cannot_be_by_name)
{
	struct {
		struct wm_trail_options options;
		char more[8];
	} longer = { .options.size = sizeof(longer), .more[0] = 1 };
	struct wm_trail_options options = { .size = 8 };

	sleeper();
	refused("options.size", -EINVAL, &options);
	refused("options.size", -E2BIG, &longer.options);
	options = (struct wm_trail_options){ .size = sizeof(options), .bytes = 1000 };
	refused("options.bytes", -EINVAL, &options);
	options.bytes = UINT64_MAX;
	refused("options.bytes", -EINVAL, &options);
	options = (struct wm_trail_options){ .size = sizeof(options), .flags = 1u << 30 };
	refused("options.flags", -EINVAL, &options);
	options.origin = TRAIL_ORIGIN_ORACLE;
	options.flags = WM_TRAIL_FLAG_KERNEL;
	refused("WM_TRAIL_FLAG_KERNEL", -WM_E_TRAIL_ASKED, &options);
	options.flags = WM_TRAIL_FLAG_SWITCHES;
	refused("WM_TRAIL_FLAG_SWITCHES", -WM_E_TRAIL_ASKED, &options);
	options.flags = WM_TRAIL_FLAG_KERNEL;
	options.follow = WM_FOLLOW_CHILDREN;
	refused("WM_TRAIL_FLAG_KERNEL", -WM_E_TRAIL_ASKED, &options);
	options.flags = WM_TRAIL_FLAG_THREAD;
	refused("WM_FOLLOW_CHILDREN is not for WM_TRAIL_FLAG_THREAD", -EINVAL, &options);
	options = (struct wm_trail_options){ .size = sizeof(options),
					     .origin = (enum wm_trail_origin)9 };
	refused("options.origin", -EINVAL, &options);
	options.origin = (enum wm_trail_origin)4; /* was of last branches */
	refused("options.origin: 4", -EINVAL, &options);
	options = (struct wm_trail_options){ .size = sizeof(options), .policy = (enum wm_policy)5 };
	refused("options.policy", -EINVAL, &options);
	options = (struct wm_trail_options){ .size = sizeof(options), .notify_fd = -2 };
	refused("options.notify_fd", -EINVAL, &options);
	options.policy = WM_POLICY_NOTIFY;
	options.notify_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	refused("options.notify_fd", -EINVAL, &options);
	close(options.notify_fd);
	refused("options.notify_fd", -EBADF, &options);
	options = (struct wm_trail_options)WM_TRAIL_OPTIONS_INIT;
	options.follow = (enum wm_follow)3;
	refused("options.follow", -EINVAL, &options);
	options = (struct wm_trail_options){ .size = sizeof(options), .notify_signal = 999 };
	refused("options.notify_signal", -EINVAL, &options);
	options = (struct wm_trail_options){ .size = sizeof(options), .watermark_percent = 101 };
	refused("options.watermark_percent", -EINVAL, &options);
	options = (struct wm_trail_options){ .size = sizeof(options), .notify_signal = SIGUSR1 };
	refused("WM_POLICY_NOTIFY", -EINVAL, &options);
}

Test(trail_refused, refuses_processes_that_cannot_be_had)
{
	pid_t gone = fork(), pid;
	int status;

	if (!gone)
		_exit(0);
	waitpid(gone, NULL, 0);
	cr_expect_eq(wm_trail_open(&trail, gone, subject_by_steps(NULL)), -ESRCH);
	cr_expect_not_null(strstr(wm_trail_detail(NULL), "pid"));
	cr_expect_eq(wm_trail_open(&trail, 0, subject_by_steps(NULL)), -EINVAL);
	cr_expect_eq(wm_trail_open(&trail, -5, subject_by_steps(NULL)), -EINVAL);
	cr_expect_eq(wm_trail_open(&trail, getpid(), subject_by_steps(NULL)), -EINVAL);
	cr_expect_eq(wm_trail_open(NULL, getpid(), subject_by_steps(NULL)), -EINVAL);
	pid = sleeper();
	cr_assert_eq(ptrace(PTRACE_SEIZE, pid, 0, 0), 0);
	cr_expect_eq(wm_trail_open(&trail, pid, subject_by_steps(NULL)), -WM_E_TRACED);
	cr_expect_not_null(strstr(wm_trail_detail(NULL), "by pid"));
	ptrace(PTRACE_INTERRUPT, pid, 0, 0);
	waitpid(pid, &status, 0);
	ptrace(PTRACE_DETACH, pid, 0, 0);
	cr_expect_null(trail);
}

Test(trail_refused, refuses_programs_that_cannot_be_started)
{
	char *none[] = { (char *)"/nonexistent/program", NULL }, *empty[] = { NULL };
	char *folder[] = { (char *)"/usr", NULL };
	struct wm_trail_options options = { .size = sizeof(options),
					    .flags = WM_TRAIL_FLAG_THREAD };
	char *fine[] = { (char *)PROGRAM, NULL };

	cr_expect_eq(wm_trail_launch(&trail, none, subject_by_steps(NULL)), -ENOENT);
	cr_expect_not_null(strstr(wm_trail_detail(NULL), "/nonexistent/program"));
	cr_expect_lt(wm_trail_launch(&trail, folder, subject_by_steps(NULL)), 0);
	cr_expect_eq(wm_trail_launch(&trail, empty, subject_by_steps(NULL)), -EINVAL);
	cr_expect_eq(wm_trail_launch(&trail, NULL, subject_by_steps(NULL)), -EINVAL);
	cr_expect_eq(wm_trail_launch(&trail, fine, subject_by_steps(&options)), -EINVAL);
	cr_expect_null(trail);
}

/* In a child that is an ordinary user: what a test says there comes back as its exit status. */
static int as_user(int (*test)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		if (!getuid() && (setgid(65534) || setuid(65534)))
			_exit(100);
		_exit(test());
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 101;
}

static int asks_for_too_much(void)
{
	struct wm_trail_options options = { .size = sizeof(options), .bytes = 1u << 20 };
	struct rlimit limit = { 65536, 65536 };
	const char *words = wm_trail_detail(NULL);
	pid_t pid = fork();
	int err;

	if (!pid)
		for (;;)
			pause();
	setrlimit(RLIMIT_MEMLOCK, &limit);
	err = wm_trail_open(&trail, pid, subject_by_steps(&options));
	wm_trail_close(trail);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (err != -WM_E_MEMORY_LIMIT)
		return 1;
	return strstr(words, "1048576") && strstr(words, "65536") && strstr(words, "RLIMIT_MEMLOCK")
		       ? 0
		       : 2;
}

Test(trail_refused, refuses_more_memory_than_may_be_locked_with_the_figures)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	cr_skip_test("a sanitizer's mlock(2) locks nothing");
#endif
	cr_expect_eq(as_user(asks_for_too_much), 0);
}

/* In a process of its own, whose limit it uses up: there is no memory for a thread's stack. */
static int has_room_for_no_thread(void)
{
	struct wm_trail_options options = { .size = sizeof(options), .bytes = 32768 };
	char *argv[] = { (char *)PROGRAM, (char *)"l", NULL };
	uint64_t bytes = (uint64_t)target_status_number(getpid(), "VmSize") * 1024 + (16u << 20);
	struct rlimit limit = { bytes, bytes };
	pthread_attr_t large; /* than any stack that is kept for reuse */

	pthread_attr_init(&large);
	pthread_attr_setstacksize(&large, 64u << 20);
	pthread_setattr_default_np(&large);
	setrlimit(RLIMIT_AS, &limit);
	if (wm_trail_launch(&trail, argv, subject_by_steps(&options)) != -EAGAIN)
		return 1;
	if (!strstr(wm_trail_detail(NULL), "no thread"))
		return 2;
	return waitpid(-1, NULL, 0) < 0 && errno == ECHILD ? 0 : 3;
}

Test(trail_refused, leaves_nothing_of_a_program_that_there_is_no_thread_for)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(has_room_for_no_thread());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect(WIFEXITED(status) && !WEXITSTATUS(status), "%#x", status);
}

Test(trail_refused, refuses_more_memory_than_the_cap_with_the_figures)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .bytes = 1u << 20,
					    .cap_bytes = 3u << 19 };
	struct wm_trail *second;

	subject_launch("e", &options);
	cr_expect_eq(wm_trail_open(&second, child, subject_by_steps(&options)), -WM_E_MEMORY_LIMIT);
	cr_expect_not_null(strstr(wm_trail_detail(NULL), "cap_bytes allows 1572864"));
	wm_trail_close(trail);
	trail = NULL;
	cr_expect_eq(wm_trail_open(&trail, child, subject_by_steps(&options)), 0, "%s",
		     wm_trail_detail(NULL));
}

static int opens_a_stranger(void)
{
	int err = wm_trail_open(&trail, getppid(), subject_by_steps(NULL));

	return err == -EPERM && strstr(wm_trail_detail(NULL), "user") ? 0 : 1;
}

Test(trail_refused, refuses_another_users_process)
{
	if (getuid())
		cr_skip_test("needs root, to be somebody else");
	cr_expect_eq(as_user(opens_a_stranger), 0);
}

/* ---- misused ---- */

static int calls_again(const struct wm_branch *branch, void *data)
{
	struct wm_branch other = { .size = sizeof(other) };

	(void)branch;
	*(int *)data = wm_trail_get(trail, 0, 0, &other);
	return 1;
}

Test(trail_refused, says_deadlock_to_calls_within_its_callback)
{
	int result = 0;

	subject_launch("x", NULL);
	subject_ended();
	cr_expect_eq(wm_trail_read(trail, calls_again, &result), 1);
	cr_expect_eq(result, -EDEADLK);
}

Test(trail_refused, is_good_for_nothing_but_close_in_a_forked_child)
{
	struct wm_branch branch = { .size = sizeof(branch) };
	pid_t pid;
	int status;

	subject_launch("e", NULL);
	cr_assert(AWAIT(wm_trail_records(trail, 0) >= 10));
	pid = fork();
	if (!pid) {
		int fine = wm_trail_get(trail, 0, 0, &branch) == -ECHILD &&
			   wm_trail_clear(trail) == -ECHILD && wm_trail_wait(trail, 0) == -ECHILD;

		wm_trail_close(trail);
		_exit(fine ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	cr_expect(WIFEXITED(status) && !WEXITSTATUS(status), "%#x", (unsigned int)status);
	cr_expect_eq(subject_status().state, WM_TRAIL_STATE_LIVE);
}

/*
 * Has a trail of a program and a child that outlives it, writes their ids to `report`, and is
 * killed.
 */
static void owner(int report)
{
	pid_t pids[2];

	subject_launch("e", NULL);
	if (!AWAIT(wm_trail_records(trail, 0) >= 10))
		_exit(1);
	pids[0] = child;
	pids[1] = fork();
	if (!pids[1])
		for (;;)
			pause();
	if (write(report, pids, sizeof(pids)) == sizeof(pids))
		raise(SIGKILL);
	_exit(1);
}

Test(trail_refused, lets_the_program_go_when_its_owner_dies_and_leaves_a_forked_child)
{
	pid_t pids[2] = { 0 }, pid;
	int ends[2];

	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	if (!pid)
		owner(ends[1]);
	close(ends[1]);
	cr_expect_eq(read(ends[0], pids, sizeof(pids)), sizeof(pids));
	waitpid(pid, NULL, 0);
	if (pids[0] > 0) {
		cr_expect(AWAIT(target_status_number(pids[0], "TracerPid") <= 0));
		cr_expect_eq(target_status_number(pids[0], "TracerPid"), 0);
		kill(pids[0], SIGKILL);
		kill(pids[1], SIGKILL);
	}
	close(ends[0]);
}

static int launches_without_standard_files(void)
{
	char *argv[] = { (char *)PROGRAM, (char *)"x", NULL };
	int pid;

	for (int fd = 0; fd < 3; fd++)
		close(fd);
	pid = wm_trail_launch(&trail, argv, subject_by_steps(NULL));
	if (pid < 0)
		return 1;
	pid = wm_trail_wait(trail, WAIT_MS);
	wm_trail_close(trail);
	return pid == 1 ? 0 : 2;
}

Test(trail_refused, needs_no_standard_files)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(launches_without_standard_files());
	waitpid(pid, &status, 0);
	cr_expect_eq(status, 0, "%#x", (unsigned int)status);
}

Test(trail_refused, takes_null_for_none)
{
	struct wm_branch branch = { 0 };

	wm_trail_close(NULL);
	wm_trail_cursor_close(NULL);
	cr_expect_eq(wm_trail_clear(NULL), -EINVAL);
	cr_expect_eq(wm_trail_records(NULL, 0), -EINVAL);
	cr_expect_eq(wm_trail_read(NULL, subject_keep, NULL), -EINVAL);
	subject_launch("x", NULL);
	subject_ended();
	cr_expect_eq(wm_trail_get(trail, 0, 0, &branch), -EINVAL, "it has no size");
	cr_expect_eq(wm_trail_get(trail, 0, 0, NULL), -EINVAL);
	cr_expect_eq(wm_trail_read(trail, NULL, NULL), -EINVAL);
}
