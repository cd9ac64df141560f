/* SPDX-License-Identifier: MIT */
#include "inside/runtime/tasks.h"

#include "base/kernel.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

int tasks_read_status(int dir, const char *name, char text[TASKS_STATUS_BYTES])
{
	char path[64];

	snprintf(path, sizeof path, "%.32s/status", name);
	/* a thread that ends once this is open has no text */
	return kernel_read_text(dir, path, text, TASKS_STATUS_BYTES) > 0 ? 0 : -1;
}

int tasks_any(int (*says)(const char *status))
{
	static char list[8192] __attribute__((aligned(8))), status[TASKS_STATUS_BYTES];
	int tasks = kernel_open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int found = tasks < 0;
	long bytes;

	while (!found &&
	       (bytes = kernel_call(SYS_getdents64, tasks, (long)list, sizeof list, 0)) > 0) {
		for (long at = 0; at < bytes && !found;) {
			const struct dirent64 *entry = (const void *)(list + at);

			at += entry->d_reclen;
			if (entry->d_name[0] != '.' &&
			    !tasks_read_status(tasks, entry->d_name, status))
				found = says(status);
		}
	}
	if (tasks >= 0)
		kernel_close(tasks);
	return found;
}

const char *tasks_value(const char *status, const char *name)
{
	const char *at = strstr(status, name);

	return at ? at + strlen(name) + strspn(at + strlen(name), "\t ") : "";
}

const char *tasks_stat(const char *path, char text[TASKS_STAT_BYTES])
{
	kernel_read_text(AT_FDCWD, path, text, TASKS_STAT_BYTES);
	text = strrchr(text, ')');
	return text && text[1] ? text + 2 : "";
}

int tasks_is_traced(void)
{
	char text[2048]; /* the line is among the first */
	const char *at;

	kernel_read_text(AT_FDCWD, "/proc/thread-self/status", text, sizeof text);
	at = tasks_value(text, "\nTracerPid:");
	return at[0] != '0' || at[1] != '\n';
}

int32_t tasks_own_filters(void)
{
	static char status[TASKS_STATUS_BYTES];

	if (tasks_read_status(AT_FDCWD, "/proc/thread-self", status))
		return INT32_MAX;
	return tasks_last_number(tasks_value(status, "\nSeccomp_filters:"));
}

int32_t tasks_last_number(const char *at)
{
	int32_t number = 0;

	for (; *at && *at != '\n'; at++)
		number = *at >= '0' && *at <= '9' ? number * 10 + (*at - '0') : 0;
	return number;
}
