/* SPDX-License-Identifier: MIT */
#include "target/process/tool_socket.h"

#include "base/socketdir.h"
#include "target/process/owner.h"
#include "target/process/stale.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/*
 * children forked at once: one that finds no room continues unrecorded. The kernel lowers it to its
 * own limit
 */
#define BACKLOG 4096

#define NAMES_MAX 64

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
	err = mount_ns_path(listener->folder, name, address.sun_path, sizeof(address.sun_path));
	if (err)
		return err;
	/* left by a killed tool of our pid, unless one of another PID namespace answers */
	if (stale_is_refused(&address))
		unlink(address.sun_path);
	if (bind(listener->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	memcpy(listener->way, address.sun_path, sizeof(listener->way));
	return 0;
}

/*
 * Make the socket as the user who owns the folder, so that it belongs to that user from the start.
 */
static int name_new_socket(struct listener *listener, const char *dir)
{
	int err = owner_become(listener->uid);

	if (err)
		return err;
	stale_remove(listener->folder, time(NULL));
	err = -EADDRINUSE;
	for (int i = 0; err == -EADDRINUSE && i < NAMES_MAX; i++)
		err = name_socket(listener, dir);
	owner_leave();
	return err;
}

int tool_socket_listener_new(struct listener **listener, const char *dir, int folder, uid_t uid)
{
	struct listener *new = calloc(1, sizeof(*new));
	int err = 0;

	*listener = NULL;
	if (!new) {
		close(folder);
		return -ENOMEM;
	}
	new->gathered = -1;
	new->uid = uid;
	new->folder = folder;
	new->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (new->fd < 0)
		err = -errno;
	if (!err)
		err = name_new_socket(new, dir);
	if (!err && listen(new->fd, BACKLOG) < 0)
		err = -errno;
	if (err)
		tool_socket_listener_free(new);
	else
		*listener = new;
	return err;
}

int tool_socket_listener_accept(struct listener *listener, struct link *link)
{
	int fd, err;

	fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED ? 0 : -errno;
	err = link_adopt(link, fd);
	return err ? err : 1;
}

void tool_socket_listener_free(struct listener *listener)
{
	char *slash;

	if (!listener)
		return;
	if (listener->fd >= 0)
		close(listener->fd);
	if (listener->way[0])
		unlink(listener->way);
	close(listener->folder);
	slash = strrchr(listener->path, '/');
	if (slash) {
		*slash = '\0';
		socketdir_leave(listener->path);
	}
	free(listener);
}
