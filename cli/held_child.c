/* SPDX-License-Identifier: MIT */
#include "cli/held_child.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Noreturn void execute(char **argv, int go, int failed)
{
	char byte;
	int error;

	if (read(go, &byte, 1) != 1)
		_exit(127);
	execvp(argv[0], argv);
	error = errno;
	if (write(failed, &error, sizeof(error)) < 0)
		error = 0;
	_exit(127);
}

int held_child_start(struct held_child *held, char **argv)
{
	int go[2], failed[2];

	if (pipe2(go, O_CLOEXEC))
		return -errno;
	if (pipe2(failed, O_CLOEXEC)) {
		close(go[0]);
		close(go[1]);
		return -EMFILE;
	}
	held->child.pid = fork();
	if (!held->child.pid) {
		close(go[1]);
		execute(argv, go[0], failed[1]);
	}
	close(go[0]);
	close(failed[1]);
	held->go = go[1];
	held->failed = failed[0];
	if (held->child.pid < 0) {
		close(held->go);
		close(held->failed);
		held->child.pid = 0;
		return -EAGAIN;
	}
	held->pidfd = (int)syscall(SYS_pidfd_open, held->child.pid, 0);
	return 0;
}

int held_child_go(struct held_child *held)
{
	int error = 0;
	ssize_t bytes = write(held->go, "", 1);

	close(held->go);
	held->go = -1;
	if (bytes != 1)
		return -EPIPE;
	do
		bytes = read(held->failed, &error, sizeof(error));
	while (bytes < 0 && errno == EINTR);
	return bytes == sizeof(error) ? -error : 0;
}

void held_child_end(struct held_child *held)
{
	if (held->go >= 0)
		close(held->go);
	close(held->failed);
	if (held->pidfd >= 0)
		close(held->pidfd);
	child_wait(&held->child);
}
