/* SPDX-License-Identifier: MIT */
#include "bench/mechanisms/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

#define PROGRAM "mechanisms_target"
#define ANSWER_MS 60000

/* It is beside our own program. */
static int find_program(char path[PATH_MAX])
{
	ssize_t got = readlink("/proc/self/exe", path, PATH_MAX - sizeof(PROGRAM));

	if (got <= 0)
		return -ENOENT;
	path[got] = '\0';
	strcpy(strrchr(path, '/') + 1, PROGRAM);
	return access(path, X_OK) == 0 ? 0 : -errno;
}

static int read_whole(int fd, void *to, size_t bytes)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	int got = poll(&ready, 1, ANSWER_MS);

	if (got <= 0)
		return got ? -errno : -ETIMEDOUT;
	return read(fd, to, bytes) == (ssize_t)bytes ? 0 : -WM_E_GONE;
}

static int spawn(struct child *child, char *const argv[])
{
	child->pid = fork();
	if (child->pid < 0)
		return -errno;
	if (child->pid == 0) {
		execv(argv[0], argv);
		_exit(127);
	}
	return 0;
}

int child_start(struct child *child, struct wm_session *session)
{
	char number[16], *argv[] = { child->path, number, NULL };
	int fds[2], err;

	*child = (struct child){ .fd = -1 };
	err = find_program(child->path);
	if (err)
		return err;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds))
		return -errno;
	child->fd = fds[0];
	fcntl(fds[0], F_SETFD, FD_CLOEXEC);
	snprintf(number, sizeof(number), "%d", fds[1]);
	if (session) {
		child->pid = wm_session_launch(session, argv);
		err = child->pid < 0 ? child->pid : wm_session_start(session);
	} else {
		err = spawn(child, argv);
	}
	close(fds[1]); /* it has its own */
	return err ? err : read_whole(child->fd, &child->hello, sizeof(child->hello));
}

double child_run(struct child *child, enum target_way way, unsigned int layout, uint64_t count)
{
	struct target_request request = { .way = way, .layout = layout, .count = count };
	struct target_answer answer;

	if (send(child->fd, &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request) ||
	    read_whole(child->fd, &answer, sizeof(answer)))
		return -1;
	return answer.ns;
}

void child_release(struct child *child)
{
	if (child->fd >= 0)
		close(child->fd);
	if (child->pid > 0) {
		kill(child->pid, SIGKILL);
		waitpid(child->pid, NULL, 0);
	}
	*child = (struct child){ .fd = -1 };
}
