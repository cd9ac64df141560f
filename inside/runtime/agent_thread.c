/* SPDX-License-Identifier: MIT */
#include "inside/runtime/agent_thread.h"

#include "base/kernel.h"
#include "inside/runtime/tasks.h"

#include <errno.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#define OUR_THREADS 2 /* the control thread and its keeper */

int agent_thread_unshare_descriptors(void)
{
	if (!kernel_call(SYS_close_range, 0, ~0u, CLOSE_RANGE_UNSHARE, 0))
		return 0;
	/* before Linux 5.9, or filtered */
	if (kernel_call(SYS_unshare, CLONE_FILES, 0, 0, 0))
		return -errno;
	for (int fd = 0; fd < 65536; fd++)
		kernel_close(fd);
	return 0;
}

/*
 * The kernel's own set, since pthread_sigmask() leaves libc's signals alone. All but setxid's (33).
 */
void agent_thread_block_signals(void)
{
	uint64_t mask = ~(UINT64_C(1) << (33 - 1));

	syscall_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, sizeof mask);
}

int agent_thread_wake_fd(void)
{
	uint64_t mask = UINT64_C(1) << (THREAD_WAKE_SIGNAL - 1);

	return (int)syscall_raw(SYS_signalfd4, -1, (long)&mask, sizeof mask,
				SFD_NONBLOCK | SFD_CLOEXEC);
}

/*
 * The leader is a zombie and there are no others. libc ends the
 * process when the last of its threads returns, and that will be the keeper.
 */
int agent_thread_is_last(void)
{
	char text[TASKS_STAT_BYTES];
	struct stat found;

	if (kernel_stat("/proc/self/task", &found) || found.st_nlink != 2 + OUR_THREADS + 1)
		return 0;
	return *tasks_stat("/proc/self/stat", text) == 'Z';
}
