/* SPDX-License-Identifier: MIT */
/*
 * Programs are entered as they begin, by an engine that only says so and lets them run: ENGINE;
 * BEGINNING, BEGINNING_PIE, STEPS.
 */
#include "abi/engine.h"
#include "record/trail/soft/soft_ended.h"
#include "record/trail/soft/soft_image.h"
#include "record/trail/soft/soft_launch.h"
#include "record/trail/testing/sink.h"
#include "record/trail/tracing.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/trail.h>

#define OUTPUT_MAX 65536

static struct sample_sink sink;
static char detail[TRACING_DETAIL_BYTES];
static uint64_t address_limit; /* of the program; 0: none */

static void sink_begin(void)
{
	sample_sink_init(&sink);
}

static void sink_end(void)
{
	sample_sink_release(&sink);
}

TestSuite(soft, .init = sink_begin, .fini = sink_end, .timeout = 60);

/* A child whose output goes into `out`; with gates it waits to be entered. */
static pid_t start(int out, const int gates[2], char *const argv[])
{
	pid_t pid = fork();

	if (pid)
		return pid;
	if (gates)
		close(gates[0]);
	personality(ADDR_NO_RANDOMIZE);
	dup2(out, 1);
	if (address_limit)
		setrlimit(RLIMIT_AS, &(struct rlimit){ address_limit, address_limit });
	if (gates)
		soft_become(gates[1], argv[0], argv);
	execv(argv[0], argv);
	_exit(126);
}

static int take(struct tracing **soft, pid_t *pid, int out, char *const argv[])
{
	const struct tracing_how how = { .origin = ORIGIN_SOFT, .machine.engine = ENGINE };
	int gates[2], err;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gates), 0);
	*pid = start(out, gates, argv);
	close(gates[1]);
	err = tracing_soft.take(soft, &sink.sink, &how, *pid, gates[0], detail);
	close(gates[0]);
	return err;
}

/* Run it to its end; how many bytes of output. */
static size_t run(char *const argv[], int is_soft, char *output, int *status)
{
	int pipes[2], more = 1;
	struct tracing *soft;
	ssize_t got = 0, all = 0;
	pid_t pid;

	cr_assert_eq(pipe2(pipes, O_CLOEXEC), 0);
	if (is_soft)
		cr_assert_eq(take(&soft, &pid, pipes[1], argv), 0, "%s", detail);
	else
		pid = start(pipes[1], NULL, argv);
	close(pipes[1]);
	while (is_soft && more > 0)
		more = tracing_soft.run(soft, 10);
	cr_assert_geq(more, 0);
	if (is_soft)
		cr_expect_eq(soft_close(soft), 0);
	while ((got = read(pipes[0], output + all, OUTPUT_MAX - (size_t)all)) > 0)
		all += got;
	close(pipes[0]);
	cr_assert_eq(waitpid(pid, status, 0), pid);
	return (size_t)all;
}

static void compare(char *path)
{
	static char native[OUTPUT_MAX], entered[OUTPUT_MAX];
	char *argv[] = { path, (char *)"one", NULL };
	int statuses[2];
	size_t bytes[2];

	bytes[0] = run(argv, 0, native, &statuses[0]);
	bytes[1] = run(argv, 1, entered, &statuses[1]);
	cr_assert_eq(bytes[0], bytes[1], "%s: %zu, %zu", path, bytes[0], bytes[1]);
	cr_expect_eq(statuses[0], statuses[1]);
	for (size_t i = 0; i < bytes[0]; i++)
		cr_assert_eq(native[i], entered[i], "%s: byte %zu: %d, %d", path, i, native[i],
			     entered[i]);
	cr_expect_null(sink.wrong, "%s", sink.wrong);
	cr_expect_eq(sink.count, 2, "%s", sample_sink_text(&sink));
	cr_expect_eq(sink.items[0].entry.instructions, 1);
	cr_expect_eq(sink.items[1].between.event, TRAIL_END);
	cr_expect_eq(sink.items[1].between.values[1], (uint64_t)WEXITSTATUS(statuses[0]));
	cr_expect(sink.is_over);
}

Test(soft, a_static_program_begins_as_without_us)
{
	compare((char *)BEGINNING);
}

Test(soft, a_static_pie_begins_as_without_us)
{
	compare((char *)BEGINNING_PIE);
}

Test(soft, a_loader_begins_as_without_us)
{
	compare((char *)BEGINNING_LOADED);
}

Test(soft, a_dynamic_program_runs)
{
	compare((char *)"/bin/echo");
}

Test(soft, a_signal_ends_it)
{
	char *argv[] = { (char *)"/bin/sh", (char *)"-c", (char *)"kill -9 $$", NULL };
	char output[OUTPUT_MAX];
	int status;

	run(argv, 1, output, &status);
	cr_expect(WIFSIGNALED(status));
	cr_expect_eq(sink.count, 2);
	cr_expect_eq(sink.items[1].between.values[0], TRAIL_KILLED);
	cr_expect_eq(sink.items[1].between.values[1], SIGKILL);
}

Test(soft, lets_go)
{
	char *argv[] = { (char *)"/bin/sleep", (char *)"60", NULL };
	struct tracing *soft;
	int status;
	pid_t pid;

	cr_assert_eq(take(&soft, &pid, 2, argv), 0);
	cr_assert_eq(tracing_soft.run(soft, 100), 1);
	cr_expect_eq(tracing_soft.let_go(soft, 50), 0);
	cr_expect_eq(soft_close(soft), 0);
	cr_assert_eq(sink.count, 2);
	cr_expect_eq(sink.items[1].between.values[0], TRAIL_DETACHED);
	cr_assert_eq(waitpid(pid, &status, WNOHANG), 0, "it continues");
	kill(pid, SIGTERM);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(WTERMSIG(status), SIGTERM);
}

/* Before anything of it runs, a signal comes. */
Test(soft, a_signal_waits_until_it_is_entered)
{
	char *argv[] = { (char *)"/bin/sleep", (char *)"60", NULL };
	int gates[2], status;
	struct soft_sizes sizes = soft_sizes_for(0, 0);
	struct soft_channel channel;
	struct soft_control control;
	struct soft_launch launch;
	struct soft_image image;
	const struct soft_parts parts = { &channel, &image, &control };
	pid_t pid;

	cr_assert_eq(soft_control_open(&control), 0);
	cr_assert_eq(soft_channel_open(&channel, &sizes), 0);
	soft_channel_fill(&channel);
	cr_assert_eq(soft_image_find(&image, ENGINE, detail, sizeof(detail)), 0);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gates), 0);
	pid = start(2, gates, argv);
	cr_assert_eq(soft_launch_await(&launch, pid, gates[0], &parts), 0);
	kill(pid, SIGSTOP);
	kill(pid, SIGUSR1);
	cr_assert_eq(soft_launch_enter(&launch, &parts, (struct detail){ detail, sizeof(detail) }),
		     0, "%s", detail);
	cr_expect_eq(soft_launch_go(&launch), 0);
	/* SIGSTOP comes first: the other was blocked meanwhile */
	kill(pid, SIGCONT);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(WTERMSIG(status), SIGUSR1);
	soft_image_close(&image);
	soft_channel_close(&channel);
	soft_control_close(&control);
}

Test(soft, it_stops_once_it_is_entered)
{
	char *argv[] = { (char *)"/bin/sleep", (char *)"60", NULL };
	struct tracing *soft;
	int status;
	pid_t pid;

	cr_assert_eq(take(&soft, &pid, 2, argv), 0);
	kill(pid, SIGSTOP);
	cr_assert_eq(tracing_soft.run(soft, 10), 1);
	cr_assert_eq(waitpid(pid, &status, WUNTRACED), pid);
	cr_expect(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	kill(pid, SIGKILL);
	while (tracing_soft.run(soft, 10) > 0)
		;
	cr_expect_eq(soft_close(soft), 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
}

/* ---- refused ---- */

static int refused(char *path, const char *engine)
{
	const struct tracing_how how = { .origin = ORIGIN_SOFT, .machine.engine = engine };
	char *argv[] = { path, NULL };
	struct tracing *soft = NULL;
	int gates[2], err, status;
	pid_t pid;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gates), 0);
	pid = start(2, gates, argv);
	close(gates[1]);
	err = tracing_soft.take(&soft, &sink.sink, &how, pid, gates[0], detail);
	close(gates[0]);
	cr_expect_null(soft);
	cr_assert(waitpid(pid, &status, 0) == pid || errno == ECHILD, "it has ended");
	return err;
}

Test(soft, an_engine_that_is_not_there)
{
	cr_expect_eq(refused((char *)STEPS, "/nowhere/engine.so"), -WM_E_NO_ENGINE);
	cr_expect_str_eq(detail, "/nowhere/engine.so");
}

Test(soft, an_engine_that_is_none)
{
	cr_expect_eq(refused((char *)STEPS, "/etc/passwd"), -WM_E_ENGINE_FILE);
	cr_expect_eq(refused((char *)STEPS, STEPS), -WM_E_ENGINE_FILE, "it is no shared object");
}

/* The engine's file with one word of its note made another: 0, magic; 1, version. */
static int refused_with(unsigned int word, uint32_t value)
{
	static uint8_t bytes[1 << 20];
	const struct engine_version says = { ENGINE_MAGIC, ENGINE_VERSION };
	char path[] = "/tmp/soft-engine-XXXXXX";
	int from = open(ENGINE, O_RDONLY | O_CLOEXEC), to = mkstemp(path), err;
	ssize_t count = read(from, bytes, sizeof(bytes));
	uint8_t *note = memmem(bytes, (size_t)count, &says, sizeof(says));

	cr_assert_not_null(note);
	memcpy(note + word * sizeof(value), &value, sizeof(value));
	cr_assert_eq(write(to, bytes, (size_t)count), count);
	err = refused((char *)STEPS, path);
	cr_expect_eq(strncmp(detail, path, strlen(path)), 0, "%s", detail);
	unlink(path);
	close(from);
	close(to);
	return err;
}

Test(soft, an_engine_of_another_version)
{
	cr_expect_eq(refused_with(1, ENGINE_VERSION + 1), -WM_E_PROTOCOL);
	cr_expect_eq(refused_with(0, ENGINE_MAGIC + 1), -WM_E_ENGINE_FILE);
}

Test(soft, a_program_that_is_not_there)
{
	cr_expect_eq(refused((char *)"/nowhere", ENGINE), -ENOENT);
}

Test(soft, a_program_without_room)
{
	address_limit = 32 << 20;
	cr_expect_eq(refused((char *)STEPS, ENGINE), -ENOMEM);
	cr_expect(strstr(detail, "RLIMIT_AS") && strstr(detail, "33554432"), "%s", detail);
}

/* ---- the API ---- */

Test(soft, the_api_has_it)
{
	char *argv[] = { (char *)STEPS, (char *)"l", NULL };
	struct wm_trail_options options = { .size = sizeof(options),
					    .origin = WM_TRAIL_ORIGIN_SOFT };
	struct wm_branch branch = { .size = sizeof(branch) };
	struct wm_trail *trail;
	int status;
	pid_t pid;

	setenv("WAYMARK_ENGINE", ENGINE, 1);
	pid = wm_trail_launch(&trail, argv, &options);
	cr_assert_gt(pid, 0, "%s", wm_trail_detail(NULL));
	cr_expect_eq(wm_trail_wait(trail, 10000), 1);
	cr_expect_eq(wm_trail_records(trail, 0), 2, "the block, the end");
	cr_assert_eq(wm_trail_get(trail, 0, 0, &branch), 1);
	wm_trail_close(trail);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(WEXITSTATUS(status), 7);
}

/* ---- ends ---- */

Test(soft, an_end_is_told_before_and_after_it_was_awaited)
{
	int status = -1, fd;
	pid_t pid = fork();

	if (!pid)
		_exit(3);
	fd = ended_open(pid);
	cr_assert_geq(fd, 0);
	waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT);
	cr_expect(ended_is(fd));
	cr_assert_eq(ended_status(fd, pid, &status), 0);
	cr_expect_eq(status, 3 << 8);
	waitpid(pid, NULL, 0);
	status = -1;
	if (ended_status(fd, pid, &status) == -ENODATA)
		cr_skip("a kernel before 6.15");
	cr_expect_eq(status, 3 << 8);
	close(fd);
}

Test(soft, one_that_lives_has_no_end)
{
	int fd = ended_open(getpid()), status;

	cr_assert_geq(fd, 0);
	cr_expect_not(ended_is(fd));
	cr_expect_eq(ended_status(fd, getpid(), &status), -ENODATA);
	close(fd);
}
