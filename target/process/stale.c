/* SPDX-License-Identifier: MIT */
#include "target/process/stale.h"

#include "target/process/mount_ns.h"
#include "target/process/target.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

int stale_is_refused(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), is_refused;

	if (fd < 0)
		return 0;
	is_refused = connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
		     errno == ECONNREFUSED;
	close(fd);
	return is_refused;
}

/* The pid in the name of a tool's or an agent's socket; 0: it is another file. */
static pid_t pid_of(const char *name)
{
	const char *dot = strrchr(name, '.');
	char *end;
	long pid;

	if (!isdigit((unsigned char)name[0]) || !dot ||
	    (strcmp(dot, ".agent") && strcmp(dot, ".tool")))
		return 0;
	pid = strtol(name, &end, 10);
	if (*end == '-')
		strtoul(end + 1, &end, 10);
	return end == dot && pid > 0 && pid <= INT_MAX ? (pid_t)pid : 0;
}

/* When a process began, CLOCK_REALTIME in seconds; 0: no such process. */
static time_t began(pid_t pid)
{
	uint64_t ticks = target_start_time(pid);
	struct timespec boot, now;

	if (!ticks)
		return 0;
	clock_gettime(CLOCK_BOOTTIME, &boot);
	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec - boot.tv_sec + (time_t)(ticks / (uint64_t)sysconf(_SC_CLK_TCK));
}

static int is_stale(int folder, const char *name, time_t now, ino_t *inode)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	pid_t pid = pid_of(name);
	struct stat found;
	time_t start;

	if (!pid || fstatat(folder, name, &found, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISSOCK(found.st_mode) || now - found.st_mtime <= STALE_AGE_S)
		return 0;
	start = began(pid);
	/* a second for the rounding of the two clocks */
	if (start && start <= found.st_mtime + 1)
		return 0;
	*inode = found.st_ino;
	return !mount_ns_path(folder, name, address.sun_path, sizeof(address.sun_path)) &&
	       stale_is_refused(&address);
}

/* A process that got the pid meanwhile may have made the name its own. */
static void remove_same(int folder, const char *name, ino_t inode)
{
	struct stat found;

	if (!fstatat(folder, name, &found, AT_SYMLINK_NOFOLLOW) && found.st_ino == inode)
		unlinkat(folder, name, 0);
}

void stale_remove(int folder, time_t now)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	ino_t inode;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((entry = readdir(dir)))
		if (is_stale(folder, entry->d_name, now, &inode))
			remove_same(folder, entry->d_name, inode);
	closedir(dir);
}
