/* SPDX-License-Identifier: MIT */
#include "trace/perf_map.h"

#include "trace/folder.h"
#include "trace/jitdump.h"

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

/* A file of /proc/PID, with a NUL behind it. Returns whether it could be read. */
static int proc_read(uint32_t pid, const char *name, char *text, size_t bytes)
{
	char path[64];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, text, bytes - 1);
	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = '\0';
	return got > 0;
}

/*
 * Whether this is the real or the effective user of the process, if that lives: it may have changed
 * them since it began.
 */
static int is_user_now(const struct perf_map_owner *owner, uid_t uid)
{
	unsigned long long start_time;
	unsigned int real, effective;
	char text[4096];
	const char *at;

	at = proc_read(owner->pid, "status", text, sizeof(text)) ? strstr(text, "\nUid:") : NULL;
	if (!at || sscanf(at, " Uid: %u %u", &real, &effective) != 2 ||
	    (uid != real && uid != effective))
		return 0;
	/* else another process may have its number by now; field 22 of proc_pid_stat(5) */
	at = proc_read(owner->pid, "stat", text, sizeof(text)) ? strrchr(text, ')') : NULL;
	return at &&
	       sscanf(at,
		      ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
		      "%*d %*d %llu",
		      &start_time) == 1 &&
	       start_time == owner->start_time;
}

/*
 * Anybody may make a file in /tmp, under any process's number, and a link there to a file that only
 * its owner may read.
 */
static int is_trusted(int fd, const struct perf_map_owner *owner)
{
	struct stat about;

	return !fstat(fd, &about) && S_ISREG(about.st_mode) && about.st_nlink <= 1 &&
	       about.st_mtim.tv_sec + SLACK_S >= started(owner) &&
	       (about.st_uid == owner->uid || !about.st_uid || is_user_now(owner, about.st_uid));
}

static int copy(int from, int to, uint64_t *room)
{
	char bytes[65536];
	uint64_t left = *room < PERF_MAP_BYTES_MAX ? *room : PERF_MAP_BYTES_MAX;

	while (left) {
		ssize_t got = read(from, bytes, left < sizeof(bytes) ? left : sizeof(bytes)), put;

		if (got <= 0)
			return got < 0 ? -errno : 0;
		errno = ENOSPC;
		put = write(to, bytes, (size_t)got);
		if (put != got)
			return -errno;
		left -= (uint64_t)got;
		*room -= (uint64_t)got;
	}
	return 0;
}

/* -1: there is none, or it may be forged. */
static int open_trusted(const struct perf_map_owner *owner, const char *path)
{
	int fd = path ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY) : -1;

	if (fd >= 0 && is_trusted(fd, owner))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

int perf_map_copy(int folder, const struct perf_map_owner *owner, uint64_t *room)
{
	char path[64], name[PERF_MAP_NAME_BYTES];
	int map, dump, to = -EEXIST, err = 0;

	snprintf(path, sizeof(path), "/tmp/perf-%u.map", owner->pid);
	map = *room ? open_trusted(owner, path) : -1;
	dump = *room ? open_trusted(owner, owner->jitdump) : -1;
	perf_map_name(owner->pid, name);
	if (map >= 0 || dump >= 0)
		to = folder_create(folder, name, 0600);
	if (to >= 0 && map >= 0)
		err = copy(map, to, room);
	if (to >= 0 && dump >= 0 && !err)
		err = jitdump_write(dump, to, room);
	if (map >= 0)
		close(map);
	if (dump >= 0)
		close(dump);
	if (to < 0)
		return to == -EEXIST ? 0 : to;
	if (close(to) && !err)
		err = -errno;
	if (err)
		unlinkat(folder, name, 0);
	return err;
}
