/* SPDX-License-Identifier: MIT */
#include "inside/control/hello.h"

#include "base/debug_trace.h"
#include "base/kernel.h"
#include "inside/control/message.h"
#include "inside/control/session_table.h"
#include "inside/marker/marker.h"
#include "inside/runtime/tasks.h"

#include <stdlib.h>
#include <string.h>

/* Field 22 of /proc/PID/stat. */
static uint64_t start_time(void)
{
	char text[TASKS_STAT_BYTES];
	const char *at = tasks_stat("/proc/self/stat", text);

	for (int field = 3; *at && field < 22; at++)
		field += *at == ' ';
	return strtoull(at, NULL, 10);
}

/* The path of the executable with its NUL; how long that is. `path` has room for 4096. */
static size_t exe_path(char *path)
{
	ssize_t bytes = kernel_readlink("/proc/thread-self/exe", path, 4095);
	size_t used = (size_t)(bytes > 0 ? bytes : 0);

	path[used++] = 0;
	return used;
}

int hello_refuse(int fd, int error)
{
	struct control_unrecorded unrecorded = { .error = error };
	char path[4096];
	size_t bytes = exe_path(path);

	DEBUG_TRACE("agent/hello", "%s is not recorded: error %d", (long)path, error);
	return message_send(fd, CONTROL_UNRECORDED, 0, &unrecorded, sizeof unrecorded, path, bytes,
			    -1, NULL);
}

int hello_send(int fd, unsigned int flags, const struct control_inherited *inherited)
{
	struct control_hello hello = {
		.pid = (uint32_t)kernel_getpid(),
		.ppid = (uint32_t)kernel_getppid(),
		.agent_tid = (uint32_t)kernel_gettid(),
		.way = text_way(),
		.start_time = start_time(),
		.uid = (uint32_t)kernel_geteuid(),
		.forked = flags & SESSION_SHARES   ? HELLO_SHARES
			  : flags & SESSION_FORKED ? HELLO_FORKED
						   : 0,
		.launched = (flags & SESSION_LAUNCHED) != 0,
		.inherits = inherited != NULL,
	};
	char path[4096 + sizeof *inherited];
	size_t used = exe_path(path);

	if (inherited) {
		memcpy(path + used, inherited, sizeof *inherited);
		used += sizeof *inherited;
	}
	return message_send(fd, CONTROL_HELLO, 0, &hello, sizeof hello, path, used, -1, NULL);
}
