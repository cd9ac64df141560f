/* SPDX-License-Identifier: MIT */
/* Runs inside traced programs too: no allocation, no stdio streams. */
#include "base/socketdir.h"

#include "base/kernel.h"

#include <waymark/error.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_users_folder(const char *path, uid_t uid)
{
	struct stat found;

	return !kernel_lstat(path, &found) && S_ISDIR(found.st_mode) && found.st_uid == uid;
}

int socketdir_path(uid_t uid, const char *runtime_dir, char path[SOCKETDIR_BYTES])
{
	static const char leaf[] = "/waymark";

	if (runtime_dir && runtime_dir[0] == '/' &&
	    strlen(runtime_dir) + sizeof leaf <= SOCKETDIR_BYTES &&
	    is_users_folder(runtime_dir, uid))
		snprintf(path, SOCKETDIR_BYTES, "%s%s", runtime_dir, leaf);
	else
		snprintf(path, SOCKETDIR_BYTES, "/tmp/waymark-%lu", (unsigned long)uid);
	return 0;
}

int socketdir_check(const char *path, uid_t uid)
{
	struct stat found;

	/* lstat: a link could lead anywhere */
	if (kernel_lstat(path, &found))
		return -errno;
	if (!S_ISDIR(found.st_mode) || found.st_uid != uid || (found.st_mode & 07777) != 0700)
		return -WM_E_SOCKET_DIR;
	return 0;
}

int socketdir_make(const char *path, uid_t uid)
{
	if (kernel_mkdir(path, 0700)) {
		if (errno != EEXIST)
			return -errno;
	} else if (kernel_chmod(path, 0700)) { /* an odd umask took bits away */
		return -errno;
	}
	return socketdir_check(path, uid);
}

int socketdir_find(uid_t uid, const char *runtime_dir, char path[SOCKETDIR_BYTES])
{
	char system[32], other[SOCKETDIR_BYTES];
	int error;

	snprintf(system, sizeof system, "/run/user/%lu", (unsigned long)uid);
	socketdir_path(uid, runtime_dir, path);
	error = socketdir_make(path, uid);
	for (int i = 0; error && i < 2; i++) {
		socketdir_path(uid, i ? NULL : system, other);
		if (!socketdir_make(other, uid)) {
			strcpy(path, other);
			return 0;
		}
	}
	return error;
}

static const char temporary[] = "/tmp/waymark-";

int socketdir_make_private(uid_t uid, char path[SOCKETDIR_BYTES])
{
	unsigned long number;

	do {
		if (kernel_call(SYS_getrandom, (long)&number, sizeof number, 0, 0) != sizeof number)
			return -errno;
		snprintf(path, SOCKETDIR_BYTES, "%s%lu-%016lx", temporary, (unsigned long)uid,
			 number);
		if (!kernel_mkdir(path, 0700))
			return kernel_chmod(path, 0700) ? -errno : 0;
	} while (errno == EEXIST);
	return -errno;
}

int socketdir_is_private(const char *path)
{
	const char *user = strstr(path, temporary);

	return user == path && strchr(user + sizeof temporary - 1, '-');
}

void socketdir_leave(const char *path)
{
	if (socketdir_is_private(path))
		kernel_call(SYS_rmdir, (long)path, 0, 0, 0);
}

void socketdir_agent_name(pid_t pid, unsigned int twin, char *name, size_t bytes)
{
	if (twin)
		snprintf(name, bytes, "%ld-%u.agent", (long)pid, twin);
	else
		snprintf(name, bytes, "%ld.agent", (long)pid);
}

int socketdir_address(struct sockaddr_un *address, const char *path, const char *name)
{
	int length;

	memset(address, 0, sizeof *address);
	address->sun_family = AF_UNIX;
	if (name[0] == '/')
		length = snprintf(address->sun_path, sizeof address->sun_path, "%s", name);
	else
		length = snprintf(address->sun_path, sizeof address->sun_path, "%s/%s", path, name);
	return (size_t)length >= sizeof address->sun_path ? -ENAMETOOLONG : 0;
}

int socketdir_peer(int fd, struct ucred *peer)
{
	socklen_t bytes = sizeof *peer;

	if (kernel_getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &bytes))
		return -errno;
	if (bytes != sizeof *peer || (peer->uid != kernel_geteuid() && peer->uid != 0))
		return -WM_E_PEER_UID;
	return 0;
}
