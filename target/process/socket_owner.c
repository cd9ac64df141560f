/* SPDX-License-Identifier: MIT */
#include "target/process/socket_owner.h"

#include "target/process/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <waymark/error.h>

#define ENVIRON_BYTES_MAX (256 * 1024)

int socket_place_own(char dir[SOCKETDIR_BYTES])
{
	return socketdir_find(geteuid(), getenv("XDG_RUNTIME_DIR"), dir);
}

/* XDG_RUNTIME_DIR as the process was started with; the result is to be freed; NULL: none. */
static char *runtime_of(pid_t pid)
{
	static const char name[] = "XDG_RUNTIME_DIR=";
	char path[64], *all, *found = NULL;
	size_t got = 0;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	all = malloc(ENVIRON_BYTES_MAX + 1);
	while (all && got < ENVIRON_BYTES_MAX &&
	       (n = read(fd, all + got, ENVIRON_BYTES_MAX - got)) > 0)
		got += (size_t)n;
	close(fd);
	if (!all)
		return NULL;
	all[got] = 0;
	for (char *at = all; at < all + got && !found; at += strlen(at) + 1)
		if (!strncmp(at, name, sizeof(name) - 1))
			found = strdup(at + sizeof(name) - 1);
	free(all);
	return found;
}

int socket_place_of(pid_t pid, uid_t uid, char dir[SOCKETDIR_BYTES])
{
	char *runtime = runtime_of(pid);
	int err = owner_become(uid);

	if (!err) {
		err = socketdir_find(uid, runtime, dir);
		owner_leave();
	}
	free(runtime);
	return err;
}

int socket_place_any(pid_t pid, uid_t uid, char dir[SOCKETDIR_BYTES])
{
	char private[SOCKETDIR_BYTES];
	int err = uid == geteuid() && pid == getpid() ? socket_place_own(dir)
						      : socket_place_of(pid, uid, dir);

	if (!err || owner_become(uid))
		return err;
	if (!socketdir_make_private(uid, private)) {
		strcpy(dir, private);
		err = 0;
	}
	owner_leave();
	return err;
}

int socket_place_open(const char *dir, uid_t uid)
{
	int fd = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), err;
	struct stat found;

	if (fd < 0)
		return errno == ENOTDIR ? -WM_E_SOCKET_DIR : -errno;
	err = fstat(fd, &found) ? -errno : 0;
	if (!err && (found.st_uid != uid || (found.st_mode & 07777) != 0700))
		err = -WM_E_SOCKET_DIR;
	if (err)
		close(fd);
	return err ? err : fd;
}

/* Not where its environment says: that folder may be on a file system that runs no programs. */
void socket_place_apart(uid_t uid, char dir[SOCKETDIR_BYTES])
{
	socketdir_path(uid, NULL, dir);
}

int socket_place_candidate(pid_t pid, uid_t uid, unsigned int which, char dir[SOCKETDIR_BYTES])
{
	char system[64], *runtime;

	switch (which) {
	case 0:
		runtime = runtime_of(pid);
		socketdir_path(uid, runtime, dir);
		free(runtime);
		return 0;
	case 1:
		snprintf(system, sizeof(system), "/run/user/%u", (unsigned int)uid);
		return socketdir_path(uid, system, dir);
	case 2:
		return socketdir_path(uid, NULL, dir);
	case 3:
		return socketdir_path(uid, uid == geteuid() ? getenv("XDG_RUNTIME_DIR") : NULL,
				      dir);
	default:
		return -ENOENT;
	}
}
