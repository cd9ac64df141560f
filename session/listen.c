/* SPDX-License-Identifier: MIT */
#include "session/listen.h"

#include "session/place.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 128

static int name_socket(struct listener *listener, const char *dir)
{
	static unsigned int serial;
	struct sockaddr_un address;
	char name[64];
	int err;

	snprintf(name, sizeof(name), "%d-%u.tool", (int)getpid(),
		 __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED));
	err = socketdir_address(&address, dir, name);
	if (err)
		return err;
	memcpy(listener->path, address.sun_path, sizeof(listener->path));
	/* what bears our pid and isn't ours was left by a tool that was killed */
	unlink(listener->path);
	if (bind(listener->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return 0;
}

int listener_open(struct listener *listener)
{
	char dir[SOCKETDIR_BYTES];
	int err;

	*listener = (struct listener){ .fd = -1 };
	err = place_own(dir);
	if (err) {
		snprintf(listener->path, sizeof(listener->path), "%s", dir);
		return err;
	}
	listener->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener->fd < 0)
		return -errno;
	err = name_socket(listener, dir);
	if (!err && listen(listener->fd, BACKLOG) < 0)
		err = -errno;
	if (err)
		listener_release(listener);
	return err;
}

int listener_accept(struct listener *listener, struct link *link)
{
	int fd, err;

	if (listener->fd < 0)
		return 0;
	fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED ? 0 : -errno;
	err = link_adopt(link, fd);
	return err ? err : 1;
}

void listener_release(struct listener *listener)
{
	if (listener->fd >= 0) {
		close(listener->fd);
		unlink(listener->path);
	}
	listener->fd = -1;
}
