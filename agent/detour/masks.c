/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "agent/detour/masks.h"

#include "agent/control/thread.h"
#include "agent/detour/trap.h"
#include "base/kernel.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#define STATUS_BYTES 8192

typedef int masks_look(const char *status);

static char status_text[STATUS_BYTES], own_text[STATUS_BYTES];

static int read_status(int dir, const char *name, char text[STATUS_BYTES])
{
	char path[64];
	ssize_t got;
	int fd;

	snprintf(path, sizeof path, "%.32s/status", name);
	fd = (int)kernel_call(SYS_openat, dir, (long)path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return -1; /* it has ended */
	got = kernel_read(fd, text, STATUS_BYTES - 1);
	kernel_close(fd);
	text[got > 0 ? got : 0] = 0;
	return 0;
}

/* What stands behind "\nNAME:"; "" if there is no such line. */
static const char *value_of(const char *status, const char *name)
{
	const char *at = strstr(status, name);

	return at ? at + strlen(name) + strspn(at + strlen(name), "\t ") : "";
}

/* The last number of a line: in its own, innermost namespace. */
static int32_t last_number(const char *at)
{
	int32_t number = 0;

	for (; *at && *at != '\n'; at++)
		number = *at >= '0' && *at <= '9' ? number * 10 + (*at - '0') : 0;
	return number;
}

static int has_signal(const char *status, const char *name)
{
	const char *at = value_of(status, name);
	uint64_t mask = 0;

	for (; *at && *at != '\n'; at++)
		mask = mask << 4 | (uint64_t)(*at <= '9' ? *at - '0' : *at - 'a' + 10);
	return (mask & TRAP_SIGNAL_BIT) != 0;
}

static int blocks(const char *status)
{
	return has_signal(status, "\nSigBlk:");
}

static int is_line_equal(const char *a, const char *b)
{
	while (*a == *b && *a && *a != '\n') {
		a++;
		b++;
	}
	return *a == *b;
}

static int is_filtered(const char *status)
{
	static const char *const names[] = { "\nSeccomp:", "\nSeccomp_filters:" };

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		if (!is_line_equal(value_of(status, names[i]), value_of(own_text, names[i])))
			return 1;
	}
	return 0;
}

static int any(masks_look *look)
{
	static char list[8192] __attribute__((aligned(8)));
	int tasks = kernel_open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int32_t mine = kernel_gettid(), tid;
	int found = tasks < 0;
	long bytes;

	while (!found &&
	       (bytes = kernel_call(SYS_getdents64, tasks, (long)list, sizeof list, 0)) > 0) {
		for (long at = 0; at < bytes && !found;) {
			const struct dirent64 *entry = (const void *)(list + at);

			at += entry->d_reclen;
			if (entry->d_name[0] == '.' ||
			    read_status(tasks, entry->d_name, status_text))
				continue;
			tid = last_number(value_of(status_text, "\nNSpid:"));
			if (tid != mine && tid != control_keeper)
				found = look(status_text);
		}
	}
	if (tasks >= 0)
		kernel_close(tasks);
	return found;
}

int masks_any_blocks(void)
{
	return any(blocks);
}

int masks_any_filtered(void)
{
	return read_status(AT_FDCWD, "/proc/thread-self", own_text) || any(is_filtered);
}
