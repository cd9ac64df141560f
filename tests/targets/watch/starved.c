/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
/* The first breakpoint that is read: it ran, by the kernel's count, half of the time. */
ssize_t read(int fd, void *to, size_t bytes)
{
	static int bent = -1;
	ssize_t got = syscall(SYS_read, fd, to, bytes);
	uint64_t *count = to;
	char name[64], path[64] = "/proc/self/fd/";
	char *end = path + strlen(path);

	if (got != 24 || bytes != 24 || (bent >= 0 && bent != fd))
		return got;
	*end++ = '0' + fd / 100 % 10, *end++ = '0' + fd / 10 % 10, *end++ = '0' + fd % 10;
	while (path[14] == '0')
		memmove(path + 14, path + 15, strlen(path + 14));
	got = readlink(path, name, sizeof(name) - 1);
	if (got > 0 && (name[got] = 0, strstr(name, "perf_event")) && count[1]) {
		bent = fd;
		count[2] = count[1] / 2;
	}
	return 24;
}
