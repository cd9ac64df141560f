/* SPDX-License-Identifier: MIT */
/*
 * Room for descriptors. The kernel doubles a process's table as it fills, and waits for a grace
 * period (5 to 30 ms) each time where the process has several threads; so the table is made large
 * enough in one step, while the program still runs.
 */
#include "record/perf/descriptors.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <waymark/error.h>

#define SPARE 64 /* for whatever else this process opens */

/* Others get the lowest numbers that are free, so one far above is one only. */
static rlim_t descriptors_used(void)
{
	DIR *dir = opendir("/proc/self/fd");
	rlim_t used = dir ? 0 : 3;
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		used += isdigit((unsigned char)entry->d_name[0]) != 0;
	if (dir)
		closedir(dir);
	return used;
}

static void table_grow(rlim_t end)
{
	int fd = open("/", O_PATH | O_CLOEXEC), last;

	if (fd < 0)
		return;
	last = fcntl(fd, F_DUPFD_CLOEXEC, (int)end);
	if (last >= 0)
		close(last);
	close(fd);
}

int descriptors_raise(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return -errno;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &limit) ? -errno : 0;
}

int descriptors_need(size_t count, struct detail detail)
{
	rlim_t want = descriptors_used() + count + SPARE;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return -errno;
	if (want > limit.rlim_max)
		return detail_set(
			detail, -WM_E_NO_DESCRIPTORS,
			"%zu descriptors are needed, and some %d for the rest; RLIMIT_NOFILE allows %llu at most",
			count, (int)(want - count), (unsigned long long)limit.rlim_max);
	if (want > limit.rlim_cur) {
		int err = descriptors_raise();

		if (err)
			return err;
	}
	table_grow(want - 1);
	return 0;
}
