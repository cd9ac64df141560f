/* SPDX-License-Identifier: MIT */
#include "trace/perf_map.h"

#include "trace/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SLACK_S 1 /* the file's times are coarse */

void perf_map_name(uint32_t pid, char name[PERF_MAP_NAME_BYTES])
{
	snprintf(name, PERF_MAP_NAME_BYTES, ".perf-%u.map", pid);
}

int perf_map_is_name(const char *name)
{
	static const char begin[] = ".perf-", end[] = ".map";
	size_t digits;

	if (strncmp(name, begin, sizeof(begin) - 1) != 0)
		return 0;
	name += sizeof(begin) - 1;
	digits = strspn(name, "0123456789");
	return digits && !strcmp(name + digits, end);
}

/* When the process started, by the wall clock. */
static time_t started(const struct perf_map_owner *owner)
{
	struct timespec now, since_boot;

	if (!owner->start_time || clock_gettime(CLOCK_REALTIME, &now) ||
	    clock_gettime(CLOCK_BOOTTIME, &since_boot))
		return 0;
	return now.tv_sec - since_boot.tv_sec +
	       (time_t)(owner->start_time / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* As perf does: anybody may make a file in /tmp, under any process's number. */
static int is_trusted(int fd, const struct perf_map_owner *owner)
{
	struct stat about;

	return !fstat(fd, &about) && S_ISREG(about.st_mode) &&
	       (about.st_uid == owner->uid || !about.st_uid) &&
	       about.st_mtim.tv_sec + SLACK_S >= started(owner);
}

static int copy(int from, int to)
{
	char bytes[65536];
	size_t left = PERF_MAP_BYTES_MAX;

	while (left) {
		ssize_t got = read(from, bytes, left < sizeof(bytes) ? left : sizeof(bytes)), put;

		if (got <= 0)
			return got < 0 ? -errno : 0;
		errno = ENOSPC;
		put = write(to, bytes, (size_t)got);
		if (put != got)
			return -errno;
		left -= (size_t)got;
	}
	return 0;
}

int perf_map_copy(int folder, const struct perf_map_owner *owner)
{
	char path[64], name[PERF_MAP_NAME_BYTES];
	int from, to, err;

	snprintf(path, sizeof(path), "/tmp/perf-%u.map", owner->pid);
	from = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	if (from < 0)
		return 0;
	perf_map_name(owner->pid, name);
	to = is_trusted(from, owner) ? folder_create(folder, name, 0600) : -EEXIST;
	if (to < 0) {
		close(from);
		return to == -EEXIST ? 0 : to;
	}
	err = copy(from, to);
	close(from);
	if (close(to) && !err)
		err = -errno;
	if (err)
		unlinkat(folder, name, 0);
	return err;
}
