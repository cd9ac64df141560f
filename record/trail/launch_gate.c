/* SPDX-License-Identifier: MIT */
#include "record/trail/launch_gate.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

void gate_execute(int gate, const char *path, char *const argv[])
{
	char byte;
	int err;

	if (read(gate, &byte, 1) == 1)
		execv(path, argv);
	err = errno;
	(void)!send(gate, &err, sizeof(err), MSG_NOSIGNAL);
	_exit(127);
}

/* Yama lets only those trace us who are our parents, or whom we name. */
void gate_become(int gate, const char *path, char *const argv[])
{
	pid_t tracer;
	int err = 0;

	if (read(gate, &tracer, sizeof(tracer)) != sizeof(tracer))
		_exit(127);
	prctl(PR_SET_PTRACER, tracer, 0, 0, 0);
	if (write(gate, &err, sizeof(err)) != sizeof(err))
		_exit(127);
	gate_execute(gate, path, argv);
}

pid_t gate_fork(int *gate, gate_becomes *become, const char *path, char *const argv[],
		char **environment)
{
	int ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return -errno;
	pid = fork();
	if (!pid) {
		close(ends[0]);
		if (environment)
			environ = environment;
		become(ends[1], path, argv);
	}
	if (pid < 0) {
		pid = -errno;
		close(ends[0]);
	}
	close(ends[1]);
	*gate = ends[0];
	return pid;
}

int gate_pass(int gate, pid_t pid, int options)
{
	int status, err;

	if (ptrace(PTRACE_SEIZE, pid, 0, options) < 0 || send(gate, "", 1, MSG_NOSIGNAL) != 1)
		return -errno;
	/* one that is traced stops for any signal that comes meanwhile, also for an ignored one */
	while (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status)) {
		if (status >> 16 == PTRACE_EVENT_EXEC)
			return 0;
		if (status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP)
			ptrace(PTRACE_LISTEN, pid, 0, 0); /* until SIGCONT */
		else
			ptrace(PTRACE_CONT, pid, 0, status >> 16 ? 0 : WSTOPSIG(status));
	}
	if (recv(gate, &err, sizeof(err), MSG_DONTWAIT) != sizeof(err) || !err)
		err = ECHILD;
	return -err;
}

int gate_await(int gate, pid_t pid, int options)
{
	pid_t self = getpid();
	int err;

	if (send(gate, &self, sizeof(self), MSG_NOSIGNAL) != sizeof(self) ||
	    recv(gate, &err, sizeof(err), 0) != sizeof(err))
		return -ECHILD;
	return gate_pass(gate, pid, options);
}
