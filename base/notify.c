/* SPDX-License-Identifier: MIT */
#include "base/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* 1 also if there is no /proc to see it in. */
static int is_eventfd(int fd)
{
	char path[32], target[32];
	ssize_t bytes;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	bytes = readlink(path, target, sizeof(target) - 1);
	if (bytes < 0)
		return 1;
	target[bytes] = '\0';
	return !strcmp(target, "anon_inode:[eventfd]");
}

int notify_check(enum wm_policy policy, int notify_fd, int notify_signal)
{
	int flags;

	if (notify_signal < 0 || notify_signal > SIGRTMAX || notify_signal == SIGKILL ||
	    notify_signal == SIGSTOP || notify_fd < -1)
		return -EINVAL;
	if (policy != WM_POLICY_NOTIFY || notify_fd < 0)
		return 0;
	flags = fcntl(notify_fd, F_GETFL);
	if (flags < 0 || flags & O_PATH || (flags & O_ACCMODE) == O_RDONLY)
		return -EBADF;
	/* a caller that forgot WM_SESSION_OPTIONS_INIT means standard input by 0 */
	return is_eventfd(notify_fd) ? 0 : -EINVAL;
}

void notify_send(int notify_fd, int notify_signal)
{
	const uint64_t one = 1;
	int before = errno;

	/* an eventfd that is full already says what there is to say */
	if (notify_fd >= 0 && write(notify_fd, &one, sizeof(one)) < 0)
		errno = before;
	if (notify_signal > 0)
		kill(getpid(), notify_signal);
}
