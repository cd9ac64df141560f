/* SPDX-License-Identifier: MIT */
/* The tracer is another process: what it starts with, and how it ends. */
#include "base/testing/await.h"
#include "record/trail/launch_gate.h"
#include "record/trail/tracer.h"
#include "record/trail/testing/sink.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(tracer, .timeout = 120);

/* To its end; its status as wait(2) has it. */
static int stepped(struct sample_sink *sink, const char *mode)
{
	char *argv[] = { PROGRAM, (char *)mode, NULL };
	struct tracing_how how = { .origin = ORIGIN_ORACLE };
	struct tracer tracer;
	int err = tracer_launch(&tracer, &sink->sink, &how, argv[0], argv), status = 0;

	if (err)
		return err;
	tracer_go(&tracer);
	cr_assert(AWAIT(tracer_pump(&tracer) <= 0));
	err = tracer_stop(&tracer);
	if (waitpid(tracer.pid, &status, 0) != tracer.pid)
		return -1;
	return err ? err : status;
}

/* The sockets then have the numbers of the standard streams. */
Test(tracer, steps_for_one_whose_standard_streams_are_closed)
{
	struct sample_sink sink;
	int kept[3], status;

	sample_sink_init(&sink);
	for (int fd = 0; fd < 3; fd++) {
		kept[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 100);
		close(fd);
	}
	status = stepped(&sink, "l");
	for (int fd = 0; fd < 3; fd++)
		if (kept[fd] >= 0)
			dup2(kept[fd], fd);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 7, "status %#x",
		  (unsigned int)status);
	cr_expect_null(sink.wrong, "%s", sink.wrong);
	cr_expect(sink.is_over);
	sample_sink_release(&sink);
}

/* As gate_become(), with a signal that is ignored unless one traces: a window's new size. */
static void become_late(int gate, const char *path, char *const argv[])
{
	pid_t tracer;
	int err = 0;
	char byte;

	if (read(gate, &tracer, sizeof(tracer)) == sizeof(tracer) &&
	    write(gate, &err, sizeof(err)) == sizeof(err) && read(gate, &byte, 1) == 1) {
		raise(SIGWINCH);
		execv(path, argv);
	}
	_exit(127);
}

Test(tracer, signal_at_the_gate_does_not_end_the_launch)
{
	char *argv[] = { PROGRAM, (char *)"l", NULL };
	int gate, status;
	pid_t pid = gate_fork(&gate, become_late, argv[0], argv, NULL);

	cr_assert_gt(pid, 0);
	cr_expect_eq(gate_await(gate, pid, PTRACE_O_TRACEEXEC), 0);
	ptrace(PTRACE_DETACH, pid, 0, 0);
	close(gate);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 7, "status %#x",
		  (unsigned int)status);
}
