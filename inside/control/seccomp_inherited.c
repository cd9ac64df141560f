/* SPDX-License-Identifier: MIT */
#include "inside/control/seccomp_inherited.h"

#include "base/kernel.h"
#include "inside/runtime/tasks.h"

#include <sys/prctl.h>

int seccomp_inherited_is_more(const char *reported)
{
	static char status[TASKS_STATUS_BYTES];
	const char *line;

	if (!reported)
		return 0;
	/* without /proc there is nothing harmless to ask by */
	if (tasks_read_status(AT_FDCWD, "/proc/self", status))
		return kernel_call(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0) > 0;
	line = tasks_value(status, "\nSeccomp_filters:");
	if (!*line) /* before Linux 5.9: whether there are any */
		line = tasks_value(status, "\nSeccomp:");
	return tasks_last_number(line) > tasks_last_number(reported);
}
