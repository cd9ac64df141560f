/* SPDX-License-Identifier: MIT */
/*
 * The injector: a process of Waymark's that does one injection and reports the outcome to the tool.
 * While a thread is borrowed, Waymark's code is behind some module's text
 * (target/process/remote_thread.h). A tool that is killed at that moment could not restore the
 * bytes there. The injector survives it and does.
 */
#include "target/process/inject.h"

#include "target/process/target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define TOOL 3 /* the pipe to the tool, in the injector */

struct outcome {
	int error;
	char text[1020];
};

_Static_assert(sizeof(struct outcome) <= PIPE_BUF, "one call writes it as a whole");

struct injector {
	pid_t pid;
	const char *agent_path, *socket_dir;
	int is_trial;
	int pipe[2];
};

/*
 * Nothing of the tool's is kept: no terminal, no lock on the folder, no pipe that others wait on.
 */
static void keep_only(int tool)
{
	int null;

	dup2(tool, TOOL);
	null = open("/dev/null", O_RDWR);
	for (int i = 0; i < TOOL; i++)
		dup2(null, i);
	close_range(TOOL + 1, ~0u, 0);
}

static void serve(const struct injector *injector)
{
	struct outcome outcome = { 0 };
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	signal(SIGCHLD, SIG_DFL);
	setsid();
	prctl(PR_SET_NAME, "waymark-inject");
	keep_only(injector->pipe[1]);
	outcome.error = inject_here(injector->pid, injector->agent_path, injector->socket_dir, TOOL,
				    injector->is_trial, outcome.text, sizeof(outcome.text));
	_exit(write(TOOL, &outcome, sizeof(outcome)) < 0);
}

/* Twice: so it is init's to wait for, and not for this program, which may wait for any child. */
static int fork_away(const struct injector *injector)
{
	pid_t child = fork();

	if (!child) {
		child = fork();
		if (!child)
			serve(injector);
		_exit(child < 0);
	}
	if (child < 0)
		return -errno;
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	return 0;
}

/* 0, or there is no outcome: the injector could not be started, or was killed. */
static int run(struct injector *injector, struct outcome *outcome)
{
	int err = pipe2(injector->pipe, O_CLOEXEC) ? -errno : fork_away(injector);
	ssize_t got;

	if (injector->pipe[1] >= 0)
		close(injector->pipe[1]);
	do
		got = err ? 0 : read(injector->pipe[0], outcome, sizeof(*outcome));
	while (got < 0 && errno == EINTR);
	if (injector->pipe[0] >= 0)
		close(injector->pipe[0]);
	return got == (ssize_t)sizeof(*outcome) ? 0 : -EAGAIN;
}

/*
 * This process does the injection itself where no other can: its own is to be refused, and Yama may
 * let a parent alone enter a process. Then -EPERM came before anything was done.
 */
static int inject_by(struct injector *injector, char *detail, size_t detail_bytes)
{
	pid_t pid = injector->pid;
	struct outcome outcome;
	struct target target;

	if ((!target_read(&target, pid) && target.pid == getpid()) || run(injector, &outcome) ||
	    outcome.error == -EPERM)
		return inject_here(pid, injector->agent_path, injector->socket_dir, -1,
				   injector->is_trial, detail, detail_bytes);
	if (detail_bytes)
		snprintf(detail, detail_bytes, "%s", outcome.text);
	return outcome.error;
}

int injector_agent(pid_t pid, const char *agent_path, const char *socket_dir, char *detail,
		   size_t detail_bytes)
{
	struct injector injector = { pid, agent_path, socket_dir, 0, { -1, -1 } };

	return inject_by(&injector, detail, detail_bytes);
}

int injector_try(pid_t pid, const char *agent_path, const char *socket_dir, char *detail,
		 size_t detail_bytes)
{
	struct injector injector = { pid, agent_path, socket_dir, 1, { -1, -1 } };

	return inject_by(&injector, detail, detail_bytes);
}
