/* SPDX-License-Identifier: MIT */
/* Trails as a debugger has them, of programs that are stepped through. */
#include "code/file.h"
#include "code/symbol.h"
#include "trace/sample.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/trail.h>

#define SMALL 32768u
#define WAIT_MS 60000

static struct wm_trail *trail;
static pid_t child;

static void end(void)
{
	wm_trail_close(trail);
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
}

TestSuite(trail, .fini = end, .timeout = 120);

static void launch_of(const char *program, const char *mode, const struct wm_trail_options *options)
{
	char *argv[] = { (char *)program, (char *)mode, NULL };
	int pid = wm_trail_launch(&trail, argv, options);

	cr_assert_gt(pid, 0, "%s: %s", wm_error_text(pid), wm_trail_detail(NULL));
	child = pid;
}

static void launch(const char *mode, const struct wm_trail_options *options)
{
	launch_of(PROGRAM, mode, options);
}

/* Its end, as wait(2) has it. */
static int ended(void)
{
	int status = 0;

	cr_assert_eq(wm_trail_wait(trail, WAIT_MS), 1);
	cr_assert_eq(waitpid(child, &status, 0), child);
	child = 0;
	return status;
}

static struct wm_branch get(uint64_t index)
{
	struct wm_branch branch = { .size = sizeof(branch) };
	int got = wm_trail_get(trail, 0, index, &branch);

	cr_assert_eq(got, 1, "%d", got);
	return branch;
}

static struct wm_trail_status status_of(void)
{
	struct wm_trail_status status = { .size = sizeof(status) };

	cr_assert_eq(wm_trail_status(trail, &status), 0);
	return status;
}

static uint64_t address_of(const char *program, const char *name)
{
	struct code_file *file;
	uint64_t address = 0;

	cr_assert_eq(code_file_open(&file, program), 0);
	cr_assert_eq(code_symbol_value(file, name, &address), 0, "%s", name);
	code_file_close(file);
	return address;
}

/* ---- drained ---- */

struct drained {
	struct wm_branch *all;
	size_t count, room, most;
};

static int keep(const struct wm_branch *branch, void *data)
{
	struct drained *drained = data;

	if (drained->count == drained->room) {
		drained->room = drained->room ? 2 * drained->room : 64;
		drained->all = reallocarray(drained->all, drained->room, sizeof(*branch));
	}
	drained->all[drained->count++] = *branch;
	return drained->most && drained->count == drained->most ? 42 : 0;
}

static void same(const struct wm_branch *a, const struct wm_branch *b)
{
	cr_assert_eq(a->from, b->from);
	cr_assert_eq(a->to, b->to);
	cr_assert_eq(a->last, b->last);
	cr_assert_eq(a->flags, b->flags);
	cr_assert_eq(a->event, b->event);
	cr_assert_eq(a->instructions, b->instructions);
	cr_assert_eq(a->tid, b->tid);
	cr_assert_eq(a->monotonic_ns, b->monotonic_ns);
}

/* ---- records ---- */

Test(trail, gives_by_index_from_the_newest_what_it_gives_when_drained)
{
	struct drained drained = { 0 };
	struct wm_branch *newest;
	int64_t count;

	launch_of(STEPS, "c", NULL);
	cr_assert(WIFEXITED(ended()));
	count = wm_trail_records(trail, 0);
	cr_assert_gt(count, 10);
	newest = calloc((size_t)count, sizeof(*newest));
	for (int64_t i = 0; i < count; i++)
		newest[i] = get((uint64_t)i);
	cr_expect_eq(wm_trail_get(trail, 0, (uint64_t)count, &newest[0]), 0);
	newest[0] = get(0);
	cr_expect_eq(wm_trail_drain(trail, keep, &drained), 0);
	cr_assert_eq(drained.count, (size_t)count);
	for (int64_t i = 0; i < count; i++)
		same(&newest[count - 1 - i], &drained.all[i]);
	cr_expect_eq(status_of().drained, (uint64_t)count);
	/* nothing is left, nor a thread that has ended */
	cr_expect_eq(wm_trail_drain(trail, keep, &drained), 0);
	cr_expect_eq(drained.count, (size_t)count);
	cr_expect_eq(wm_trail_records(trail, 0), -ESRCH);
	free(newest);
	free(drained.all);
}

Test(trail, tells_branches_by_what_they_are)
{
	uint64_t callee = address_of(STEPS, "callee"), back = address_of(STEPS, "after_call");
	int calls = 0, returns = 0, indirect = 0, conditional = 0, straight = 0;
	struct wm_branch branch, older;

	launch_of(STEPS, "c", NULL);
	ended();
	branch = get(0);
	cr_expect_eq(branch.flags, WM_BRANCH_EVENT);
	cr_expect_eq(branch.event, WM_TRAIL_END);
	cr_expect_eq(branch.values[0], 0);
	cr_expect_eq(branch.values[1], 7);
	for (int64_t i = wm_trail_records(trail, 0) - 1; i > 0; i--) {
		branch = get((uint64_t)i);
		calls += !!(branch.flags & WM_BRANCH_CALL);
		returns += !!(branch.flags & WM_BRANCH_RETURN);
		indirect += branch.flags == (WM_BRANCH_CALL | WM_BRANCH_INDIRECT) &&
			    branch.to == callee;
		conditional += !!(branch.flags & WM_BRANCH_CONDITIONAL);
		straight += !!(branch.flags & WM_BRANCH_NOT_TAKEN);
		if (i == wm_trail_records(trail, 0) - 1)
			continue;
		older = get((uint64_t)i + 1);
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
	struct drained drained = { .most = 3 };
	int result;

	launch_of(STEPS, "l", NULL);
	ended();
	while ((result = wm_trail_drain(trail, keep, &drained)) == 42)
		drained.most += 3;
	cr_expect_eq(result, 0);
	for (size_t i = 1; i + 1 < drained.count; i++)
		cr_assert_eq(drained.all[i].from, drained.all[i - 1].last);
	cr_expect_gt(drained.count, 1000);
	free(drained.all);
}

Test(trail, has_no_records_once_cleared_and_goes_on)
{
	struct drained drained = { 0 };

	launch("e", NULL);
	while (wm_trail_records(trail, 0) < 100)
		usleep(1000);
	kill(child, SIGSTOP); /* what is still on its way comes before that */
	usleep(300000);
	cr_assert_eq(wm_trail_clear(trail), 0);
	cr_expect_eq(wm_trail_records(trail, 0), 0);
	cr_expect_eq(wm_trail_drain(trail, keep, &drained), 0);
	cr_expect_eq(drained.count, 0);
	cr_expect_eq(status_of().state, WM_TRAIL_LIVE);
	kill(child, SIGCONT);
	while (wm_trail_records(trail, 0) < 10)
		usleep(1000);
	kill(child, SIGKILL);
	cr_expect(WIFSIGNALED(ended()));
}

Test(trail, ends_where_the_program_crashed)
{
	struct wm_branch branch;

	launch("s", NULL);
	cr_expect_eq(WTERMSIG(ended()), SIGSEGV);
	branch = get(0);
	cr_expect_eq(branch.event, WM_TRAIL_END);
	cr_expect_eq(branch.values[0], 1);
	cr_expect_eq(branch.values[1], SIGSEGV);
	branch = get(1);
	cr_expect_eq(branch.flags, WM_BRANCH_CALL);
	cr_expect_eq(branch.last + 2, address_of(PROGRAM, "fault"));
}

/* ---- what becomes of a trail ---- */

Test(trail, goes_on_in_the_program_that_is_executed)
{
	int execs = 0, ends = 0, branches = 0;

	launch("x", NULL);
	cr_expect_eq(WEXITSTATUS(ended()), 7);
	for (int64_t i = wm_trail_records(trail, 0); i--;) {
		struct wm_branch branch = get((uint64_t)i);
		int is_event = branch.flags == WM_BRANCH_EVENT;

		execs += is_event && branch.event == WM_TRAIL_EXEC;
		ends += is_event && branch.event == WM_TRAIL_END;
		branches += !is_event && execs;
	}
	cr_expect_eq(execs, 1);
	cr_expect_eq(ends, 1);
	cr_expect_gt(branches, 3);
}

Test(trail, leaves_children_alone)
{
	launch("f", NULL);
	cr_expect_eq(WEXITSTATUS(ended()), 7);
	cr_expect_eq(wm_trail_threads(trail, NULL, 0), 1);
	cr_expect_eq(get(0).event, WM_TRAIL_END);
}

Test(trail, has_threads_that_end_each_with_an_event)
{
	pid_t tids[64];
	int count, ends = 0;

	launch_of(THREADS, NULL, NULL);
	ended();
	count = wm_trail_threads(trail, tids, 64);
	cr_expect_eq(count, 4, "%d", count);
	for (int i = 0; i < count; i++) {
		struct wm_branch branch = { .size = sizeof(branch) };

		cr_assert_eq(wm_trail_get(trail, tids[i], 0, &branch), 1);
		ends += branch.event == WM_TRAIL_END && branch.tid == tids[i];
	}
	cr_expect_eq(ends, count);
	cr_expect_eq(tids[0], status_of().pid);
	cr_expect_eq(wm_trail_records(trail, 1), -ESRCH);
	cr_expect_not_null(strstr(wm_trail_detail(trail), "tid 1"));
}

Test(trail, lets_a_process_go_on_when_it_is_closed)
{
	struct wm_trail_options options = { .size = sizeof(options) };
	int status;

	launch("e", NULL);
	wm_trail_close(trail);
	trail = NULL;
	usleep(50000);
	cr_expect_eq(waitpid(child, &status, WNOHANG), 0);
	/* and may be taken again */
	cr_assert_eq(wm_trail_open(&trail, child, &options), 0, "%s", wm_trail_detail(NULL));
	while (wm_trail_records(trail, 0) < 50)
		usleep(1000);
	wm_trail_close(trail);
	trail = NULL;
	usleep(50000);
	cr_expect_eq(waitpid(child, &status, WNOHANG), 0);
}

/* ---- one thread alone ---- */

static int told; /* a byte written here goes to the thread */

/* A process of two threads, of which the second waits for a byte: its id. */
static pid_t second_thread(void)
{
	char path[64];
	int pipes[2];
	pid_t tid = 0;

	cr_assert_eq(pipe(pipes), 0);
	child = fork();
	if (!child) {
		dup2(pipes[0], 0);
		execl(PROGRAM, PROGRAM, "m", NULL);
		_exit(127);
	}
	close(pipes[0]);
	told = pipes[1];
	snprintf(path, sizeof(path), "/proc/%d/task", child);
	while (!tid) {
		DIR *list = opendir(path);
		struct dirent *entry;

		while ((entry = readdir(list)))
			if (atoi(entry->d_name) > 0 && atoi(entry->d_name) != child)
				tid = atoi(entry->d_name);
		closedir(list);
		usleep(1000);
	}
	return tid;
}

static int tracer_of(pid_t tid)
{
	char path[64], line[256];
	int tracer = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "TracerPid:", 10))
			tracer = atoi(line + 10);
	if (file)
		fclose(file);
	return tracer;
}

static void open_thread(pid_t tid)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .flags = WM_TRAIL_THREAD | WM_TRAIL_SYSCALLS };

	cr_assert_eq(wm_trail_open(&trail, tid, &options), 0, "%s", wm_trail_detail(NULL));
	cr_expect_eq(wm_trail_threads(trail, NULL, 0), 1);
	cr_expect_gt(tracer_of(tid), 0);
	cr_expect_eq(tracer_of(child), 0);
}

Test(trail, takes_one_thread_and_leaves_the_others_alone)
{
	struct wm_trail_options options = { .size = sizeof(options) };
	pid_t tid = second_thread();
	struct wm_branch branch;

	/* by mistake */
	cr_expect_eq(wm_trail_open(&trail, tid, &options), -EINVAL);
	cr_expect_not_null(strstr(wm_trail_detail(NULL), "WM_TRAIL_THREAD"));
	open_thread(tid);
	cr_expect_eq(status_of().pid, child);
	cr_assert_eq(write(told, "e", 1), 1);
	cr_assert_eq(wm_trail_wait(trail, WAIT_MS), 1);
	branch = get(0);
	cr_expect_eq(branch.event, WM_TRAIL_END);
	cr_expect_eq(branch.values[1], 3);
	cr_expect_eq(branch.tid, tid);
	cr_expect_eq(waitpid(child, NULL, WNOHANG), 0, "its process lives on");
	close(told);
}

/* It takes its process's id then. */
Test(trail, follows_a_thread_that_executes_a_program)
{
	pid_t tid = second_thread();
	int execs = 0, branches = 0;

	open_thread(tid);
	cr_assert_eq(write(told, "x", 1), 1);
	cr_expect_eq(WEXITSTATUS(ended()), 7);
	for (int64_t i = wm_trail_records(trail, 0); i--;) {
		struct wm_branch branch = get((uint64_t)i);

		execs += branch.flags == WM_BRANCH_EVENT && branch.event == WM_TRAIL_EXEC;
		branches += execs && branch.flags != WM_BRANCH_EVENT;
	}
	cr_expect_eq(execs, 1);
	cr_expect_gt(branches, 3);
	cr_expect_eq(get(0).event, WM_TRAIL_END);
	close(told);
}

/* ---- policies ---- */

Test(trail, keeps_the_newest_when_it_is_cyclic)
{
	struct wm_trail_options options = { .size = sizeof(options), .bytes = SMALL };
	struct wm_trail_status status;
	struct wm_branch oldest;

	launch("t", &options);
	ended();
	status = status_of();
	cr_expect_eq(status.state, WM_TRAIL_OVER);
	cr_expect_eq(status.origin, WM_TRAIL_STEP);
	cr_expect_eq(status.bytes, SMALL);
	cr_expect_gt(status.lost, 10000);
	/* way in, a call, a return, and a turn each, the way out */
	cr_expect_eq(status.branches + status.lost, 3 + 3 * 20000 + 1);
	oldest = get((uint64_t)wm_trail_records(trail, 0) - 1);
	cr_expect_eq(oldest.event, WM_TRAIL_LOST);
	cr_expect_eq(oldest.values[0], status.lost);
	cr_expect_eq(get(0).event, WM_TRAIL_END);
}

Test(trail, keeps_the_oldest_when_it_discards)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .bytes = SMALL,
					    .policy = WM_TRAIL_DISCARD };
	struct wm_trail_status status;

	launch("t", &options);
	ended();
	status = status_of();
	cr_expect_gt(status.lost, 10000);
	cr_expect_eq(get(0).event, WM_TRAIL_END);
	cr_expect_eq(get(1).event, WM_TRAIL_LOST);
	cr_expect_eq(get(1).values[0], status.lost);
	cr_expect_eq(get((uint64_t)wm_trail_records(trail, 0) - 1).flags, 0);
}

/* The processor time that the program has had, by which one sees that it is held. */
static uint64_t cpu_ticks(pid_t pid)
{
	unsigned long user = 0, kernel = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	cr_assert_not_null(file);
	cr_assert_eq(fscanf(file, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
			    &user, &kernel),
		     2);
	fclose(file);
	return user + kernel;
}

Test(trail, holds_the_program_until_it_is_drained_when_it_blocks)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .bytes = SMALL,
					    .policy = WM_TRAIL_BLOCK };
	struct drained drained = { 0 };
	uint64_t before, blocks = 0;
	int rounds = 0;

	launch("t", &options);
	do {
		before = cpu_ticks(child) + status_of().branches;
		cr_assert_eq(wm_trail_wait(trail, 1000), 0, "it has ended, and nobody drained");
	} while (before != cpu_ticks(child) + status_of().branches && rounds++ < 60);
	cr_expect_lt(rounds, 60, "it goes on and on");
	cr_expect_eq(status_of().state, WM_TRAIL_LIVE);
	while (!wm_trail_wait(trail, 1))
		cr_assert_eq(wm_trail_drain(trail, keep, &drained), 0);
	cr_assert_eq(wm_trail_drain(trail, keep, &drained), 0);
	cr_expect_eq(status_of().lost, 0);
	for (size_t i = 0; i < drained.count; i++) {
		blocks += !(drained.all[i].flags & WM_BRANCH_EVENT);
		if (i && i + 1 < drained.count)
			cr_assert_eq(drained.all[i].from, drained.all[i - 1].last);
	}
	cr_expect_eq(blocks, 3 + 3 * 20000 + 1);
	cr_expect(WIFEXITED(ended()));
	free(drained.all);
}

Test(trail, lets_go_a_program_that_it_holds_when_it_is_closed)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .bytes = SMALL,
					    .policy = WM_TRAIL_BLOCK };
	int status;

	launch("t", &options);
	while (status_of().used_bytes < SMALL * 3 / 4)
		usleep(10000);
	usleep(500000);
	wm_trail_close(trail);
	trail = NULL;
	cr_assert_eq(waitpid(child, &status, 0), child);
	child = 0;
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

Test(trail, tells_its_owner_at_the_watermark)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .bytes = SMALL * 2,
					    .policy = WM_TRAIL_NOTIFY,
					    .watermark_percent = 60 };
	struct pollfd ready = { .events = POLLIN };
	uint64_t times = 0;

	ready.fd = options.notify_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	launch("t", &options);
	cr_expect_eq(poll(&ready, 1, WAIT_MS), 1);
	cr_expect_geq(status_of().used_bytes, SMALL * 2 / 100 * 60);
	ended();
	cr_expect_eq(read(ready.fd, &times, sizeof(times)), (ssize_t)sizeof(times));
	cr_expect_eq(times, 1);
	cr_expect_gt(status_of().lost, 0);
	close(ready.fd);
}

static volatile sig_atomic_t signals;

static void on_signal(int number)
{
	(void)number;
	signals++;
}

Test(trail, tells_its_owner_by_a_signal)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .bytes = SMALL,
					    .policy = WM_TRAIL_NOTIFY,
					    .notify_signal = SIGUSR2 };

	signal(SIGUSR2, on_signal);
	launch("t", &options);
	for (int i = 0; i < WAIT_MS && !signals; i++)
		usleep(1000);
	cr_expect_eq(signals, 1);
}

/* ---- what is recorded ---- */

Test(trail, leaves_out_what_was_not_asked_for)
{
	struct wm_trail_options options = { .size = sizeof(options) };
	int syscalls = 0, found = 0, gaps = 0;

	launch_of(STEPS, "s", &options);
	ended();
	for (int64_t i = wm_trail_records(trail, 0); i--;) {
		struct wm_branch branch = get((uint64_t)i);

		if (!(branch.flags & WM_BRANCH_EVENT))
			continue;
		syscalls += branch.event == WM_TRAIL_SYSCALL;
		found += branch.event == WM_TRAIL_SIGNAL;
		gaps += branch.event == WM_TRAIL_GAP && branch.values[0] == 1;
	}
	cr_expect_eq(syscalls, 0);
	cr_expect_eq(found, 0);
	cr_expect_eq(gaps, 2, "to the handler, and back");
}

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

Test(trail, refuses_options_that_cannot_be_by_name)
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
	options.flags = WM_TRAIL_KERNEL;
	refused("WM_TRAIL_KERNEL", -WM_E_TRAIL_ASKED, &options);
	options.flags = WM_TRAIL_SWITCHES;
	refused("WM_TRAIL_SWITCHES", -WM_E_TRAIL_ASKED, &options);
	options.flags = WM_TRAIL_INHERIT;
	refused("WM_TRAIL_INHERIT", -WM_E_TRAIL_ASKED, &options);
	options = (struct wm_trail_options){ .size = sizeof(options),
					     .origin = (enum wm_trail_origin)9 };
	refused("options.origin", -EINVAL, &options);
	options.origin = WM_TRAIL_LBR;
	refused("options.origin", -WM_E_TRAIL_ASKED, &options);
	options = (struct wm_trail_options){ .size = sizeof(options),
					     .policy = (enum wm_trail_policy)4 };
	refused("options.policy", -EINVAL, &options);
	options = (struct wm_trail_options){ .size = sizeof(options), .notify_fd = -1 };
	refused("options.notify_fd", -EINVAL, &options);
	options = (struct wm_trail_options){ .size = sizeof(options), .notify_signal = 999 };
	refused("options.notify_signal", -EINVAL, &options);
	options = (struct wm_trail_options){ .size = sizeof(options), .watermark_percent = 101 };
	refused("options.watermark_percent", -EINVAL, &options);
	options = (struct wm_trail_options){ .size = sizeof(options), .notify_signal = SIGUSR1 };
	refused("WM_TRAIL_NOTIFY", -EINVAL, &options);
}

Test(trail, refuses_processes_that_cannot_be_had)
{
	pid_t gone = fork(), pid;
	int status;

	if (!gone)
		_exit(0);
	waitpid(gone, NULL, 0);
	cr_expect_eq(wm_trail_open(&trail, gone, NULL), -ESRCH);
	cr_expect_not_null(strstr(wm_trail_detail(NULL), "pid"));
	cr_expect_eq(wm_trail_open(&trail, 0, NULL), -EINVAL);
	cr_expect_eq(wm_trail_open(&trail, -5, NULL), -EINVAL);
	cr_expect_eq(wm_trail_open(&trail, getpid(), NULL), -EINVAL);
	cr_expect_eq(wm_trail_open(NULL, getpid(), NULL), -EINVAL);
	pid = sleeper();
	cr_assert_eq(ptrace(PTRACE_SEIZE, pid, 0, 0), 0);
	cr_expect_eq(wm_trail_open(&trail, pid, NULL), -WM_E_TRACED);
	cr_expect_not_null(strstr(wm_trail_detail(NULL), "by pid"));
	ptrace(PTRACE_INTERRUPT, pid, 0, 0);
	waitpid(pid, &status, 0);
	ptrace(PTRACE_DETACH, pid, 0, 0);
	cr_expect_null(trail);
}

Test(trail, refuses_programs_that_cannot_be_started)
{
	char *none[] = { (char *)"/nonexistent/program", NULL }, *empty[] = { NULL };
	char *folder[] = { (char *)"/usr", NULL };
	struct wm_trail_options options = { .size = sizeof(options), .flags = WM_TRAIL_THREAD };
	char *fine[] = { (char *)PROGRAM, NULL };

	cr_expect_eq(wm_trail_launch(&trail, none, NULL), -ENOENT);
	cr_expect_not_null(strstr(wm_trail_detail(NULL), "/nonexistent/program"));
	cr_expect_lt(wm_trail_launch(&trail, folder, NULL), 0);
	cr_expect_eq(wm_trail_launch(&trail, empty, NULL), -EINVAL);
	cr_expect_eq(wm_trail_launch(&trail, NULL, NULL), -EINVAL);
	cr_expect_eq(wm_trail_launch(&trail, fine, &options), -EINVAL);
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
	pid_t pid = fork();

	if (!pid)
		for (;;)
			pause();
	setrlimit(RLIMIT_MEMLOCK, &limit);
	if (wm_trail_open(&trail, pid, &options) != -WM_E_TRAIL_LIMIT)
		return 1;
	if (!strstr(wm_trail_detail(NULL), "1048576") || !strstr(wm_trail_detail(NULL), "65536") ||
	    !strstr(wm_trail_detail(NULL), "RLIMIT_MEMLOCK"))
		return 2;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return 0;
}

Test(trail, refuses_more_memory_than_may_be_locked_with_the_figures)
{
	cr_expect_eq(as_user(asks_for_too_much), 0);
}

Test(trail, refuses_more_memory_than_the_cap_with_the_figures)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .bytes = 1u << 20,
					    .cap_bytes = 3u << 19 };
	struct wm_trail *second;

	launch("e", &options);
	cr_expect_eq(wm_trail_open(&second, child, &options), -WM_E_TRAIL_LIMIT);
	cr_expect_not_null(strstr(wm_trail_detail(NULL), "cap_bytes allows 1572864"));
	wm_trail_close(trail);
	trail = NULL;
	cr_expect_eq(wm_trail_open(&trail, child, &options), 0, "%s", wm_trail_detail(NULL));
}

static int opens_a_stranger(void)
{
	int err = wm_trail_open(&trail, getppid(), NULL);

	return err == -EPERM && strstr(wm_trail_detail(NULL), "user") ? 0 : 1;
}

Test(trail, refuses_another_users_process)
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

Test(trail, says_deadlock_to_calls_within_its_callback)
{
	int result = 0;

	launch("x", NULL);
	ended();
	cr_expect_eq(wm_trail_drain(trail, calls_again, &result), 1);
	cr_expect_eq(result, -EDEADLK);
}

Test(trail, is_good_for_nothing_but_close_in_a_forked_child)
{
	struct wm_branch branch = { .size = sizeof(branch) };
	pid_t pid;
	int status;

	launch("e", NULL);
	while (wm_trail_records(trail, 0) < 10)
		usleep(1000);
	pid = fork();
	if (!pid) {
		int fine = wm_trail_get(trail, 0, 0, &branch) == -ECHILD &&
			   wm_trail_clear(trail) == -ECHILD && wm_trail_wait(trail, 0) == -ECHILD;

		wm_trail_close(trail);
		_exit(fine ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	cr_expect(WIFEXITED(status) && !WEXITSTATUS(status), "%#x", (unsigned int)status);
	cr_expect_eq(status_of().state, WM_TRAIL_LIVE);
}

Test(trail, takes_null_for_none)
{
	struct wm_branch branch = { 0 };

	wm_trail_close(NULL);
	wm_trail_cursor_close(NULL);
	cr_expect_eq(wm_trail_clear(NULL), -EINVAL);
	cr_expect_eq(wm_trail_records(NULL, 0), -EINVAL);
	cr_expect_eq(wm_trail_drain(NULL, keep, NULL), -EINVAL);
	launch("x", NULL);
	ended();
	cr_expect_eq(wm_trail_get(trail, 0, 0, &branch), -EINVAL, "it has no size");
	cr_expect_eq(wm_trail_get(trail, 0, 0, NULL), -EINVAL);
	cr_expect_eq(wm_trail_drain(trail, NULL, NULL), -EINVAL);
}
