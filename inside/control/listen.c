/* SPDX-License-Identifier: MIT */
#include "inside/control/listen.h"

#include "base/kernel.h"
#include "base/socketdir.h"
#include "inside/control/agent_session.h"
#include "inside/control/session_table.h"
#include "inside/runtime/lock.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define BACKLOG 8
#define WANTED_LOCK_MS 1000

static int listening = -1;
static int is_deaf; /* the tool that waits can't be taken in, and would be reported for ever */
static struct lock wanted_lock;
static char wanted[SOCKETDIR_BYTES]; /* the folder for the next listen_open() */
static char folder[SOCKETDIR_BYTES]; /* the one that it listens in, or did last */
static struct sockaddr_un own_address;
static int published = -1; /* the memfd that names a private folder */

int listen_set_folder(const char *path)
{
	int error;

	if (strlen(path) >= sizeof wanted)
		return -ENAMETOOLONG;
	error = lock_take(&wanted_lock, WANTED_LOCK_MS);
	if (error)
		return error;
	strcpy(wanted, path);
	lock_release(&wanted_lock);
	return 0;
}

int listen_fd(void)
{
	return listening;
}

int listen_poll_fd(void)
{
	return is_deaf ? -1 : listening;
}

void listen_tick(void)
{
	is_deaf = 0;
}

void listen_forked(void)
{
	listening = published = -1;
	lock_forked(&wanted_lock, 0);
}

static int new_socket(void)
{
	int fd = (int)kernel_call(SYS_socket, AF_UNIX,
				  SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, 0);

	return fd < 0 ? -errno : fd;
}

static int connect_to(const struct sockaddr_un *address)
{
	int fd = new_socket(), error;

	if (fd < 0)
		return fd;
	if (!kernel_call(SYS_connect, fd, (long)address, sizeof *address, 0))
		return fd;
	error = -errno;
	kernel_close(fd);
	return error;
}

/*
 * A socket of own_address is what a process of our number left behind, unless somebody answers
 * there.
 */
static int remove_stale(void)
{
	int fd = connect_to(&own_address);

	if (fd >= 0) {
		kernel_close(fd);
		return -EADDRINUSE; /* another PID namespace that shares the folder */
	}
	/* the process's own rules (Landlock) forbid the removal: the agent takes its next name */
	if (fd == -ECONNREFUSED && kernel_unlink(own_address.sun_path) && errno != ENOENT)
		return errno == EACCES ? -EADDRINUSE : -errno;
	return 0;
}

static int listen_as(unsigned int twin)
{
	char name[32];
	int fd, error;

	socketdir_agent_name((pid_t)kernel_getpid(), twin, name, sizeof name);
	error = socketdir_address(&own_address, folder, name);
	if (!error)
		error = remove_stale();
	if (error)
		return error;
	fd = new_socket();
	if (fd < 0)
		return fd;
	if (kernel_call(SYS_bind, fd, (long)&own_address, sizeof own_address, 0) ||
	    kernel_call(SYS_listen, fd, BACKLOG, 0, 0)) {
		error = -errno;
		kernel_close(fd);
		return error;
	}
	listening = fd;
	return 0;
}

/*
 * Tools look for us where the user's folders are, and in our descriptors for the name of any other.
 */
static int publish(void)
{
	published = kernel_memfd_filled(SOCKETDIR_MEMFD, folder, strlen(folder) + 1);
	return published < 0 || kernel_call(SYS_fchmod, published, 0444, 0, 0) ? -errno : 0;
}

int listen_open(void)
{
	int error;

	if (listening >= 0)
		return 0;
	/* a second tool may name another one meanwhile: it is bound and published as one */
	error = lock_take(&wanted_lock, WANTED_LOCK_MS);
	if (error)
		return error;
	strcpy(folder, wanted);
	lock_release(&wanted_lock);
	error = socketdir_make(folder, kernel_geteuid());
	if (error)
		return error;
	for (unsigned int twin = 0; twin < SOCKETDIR_TWINS; twin++) {
		error = listen_as(twin);
		if (error != -EADDRINUSE)
			break;
	}
	if (!error && socketdir_is_private(folder)) {
		error = publish();
		if (error)
			listen_close();
	}
	return error;
}

void listen_close(void)
{
	if (listening < 0)
		return;
	kernel_unlink(own_address.sun_path);
	kernel_close(listening);
	if (published >= 0)
		kernel_close(published);
	listening = published = -1;
	socketdir_leave(folder);
}

void listen_accept(void)
{
	int fd = (int)kernel_call(SYS_accept4, listening, 0, 0, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0)
		session_add(fd, SESSION_ACCEPTED, NULL);
	else /* without descriptors, or memory, it stays in the queue */
		is_deaf = errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
}

int listen_connect(const char *path, unsigned int flags)
{
	struct sockaddr_un address;
	int fd, error = socketdir_address(&address, "", path);

	if (error)
		return error;
	fd = connect_to(&address);
	return fd < 0 ? fd : session_add(fd, flags, path);
}

void listen_refuse(const char *path, int why)
{
	struct sockaddr_un address;
	int fd;

	if (socketdir_address(&address, "", path))
		return;
	fd = connect_to(&address);
	if (fd < 0)
		return;
	session_refuse(fd, why);
	kernel_close(fd);
}
