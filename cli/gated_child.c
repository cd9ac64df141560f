/* SPDX-License-Identifier: MIT */
#include "cli/gated_child.h"

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

int gated_child_start(struct gated_child *gated, char **argv)
{
	int go[2], failed[2];

	if (pipe2(go, O_CLOEXEC))
		return -errno;
	if (pipe2(failed, O_CLOEXEC)) {
		close(go[0]);
		close(go[1]);
		return -EMFILE;
	}
	gated->child.pid = fork();
	if (!gated->child.pid) {
		close(go[1]);
		execute(argv, go[0], failed[1]);
	}
	close(go[0]);
	close(failed[1]);
	gated->go = go[1];
	gated->failed = failed[0];
	if (gated->child.pid < 0) {
		close(gated->go);
		close(gated->failed);
		gated->child.pid = 0;
		return -EAGAIN;
	}
	gated->pidfd = (int)syscall(SYS_pidfd_open, gated->child.pid, 0);
	return 0;
}

int gated_child_go(struct gated_child *gated)
{
	int error = 0;
	ssize_t bytes = write(gated->go, "", 1);

	close(gated->go);
	gated->go = -1;
	if (bytes != 1)
		return -EPIPE;
	do
		bytes = read(gated->failed, &error, sizeof(error));
	while (bytes < 0 && errno == EINTR);
	return bytes == sizeof(error) ? -error : 0;
}

void gated_child_end(struct gated_child *gated)
{
	if (gated->go >= 0)
		close(gated->go);
	close(gated->failed);
	if (gated->pidfd >= 0)
		close(gated->pidfd);
	child_wait(&gated->child);
}
