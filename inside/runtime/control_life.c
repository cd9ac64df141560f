/* SPDX-License-Identifier: MIT */
#include "inside/runtime/control_life.h"

#include "base/kernel.h"
#include "inside/runtime/idle.h"
#include "inside/runtime/tasks.h"

#include <errno.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#define WAKE_LOCK_MS 200
#define OUR_THREADS 2 /* the control thread and its keeper */

struct control_life control_life;
int32_t control_keeper;

int control_runs(void)
{
	return __atomic_load_n(&control_life.state, __ATOMIC_ACQUIRE) != CONTROL_NONE;
}

/* Under the lock, so that the thread can't have ended and its number be another's. */
void control_wake_locked(void)
{
	if (!control_life.tid)
		return;
	syscall_raw(SYS_tgkill, kernel_getpid(), control_life.tid, THREAD_WAKE_SIGNAL, 0);
	idle_wake();
}

int control_wake(void)
{
	int is_there;

	if (lock_take(&control_life.lock, WAKE_LOCK_MS))
		return control_runs();
	is_there = control_life.tid != 0;
	control_wake_locked();
	lock_release(&control_life.lock);
	return is_there;
}

int control_is_filtered_since(void)
{
	/* mode 2 at the start already: a container's filter, which lets threads be */
	return control_life.seccomp == 0 && kernel_call(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0) > 0;
}

int control_unshare_descriptors(void)
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
void control_block_signals(void)
{
	uint64_t mask = ~(UINT64_C(1) << (33 - 1));

	syscall_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, sizeof mask);
}

int control_wake_fd(void)
{
	uint64_t mask = UINT64_C(1) << (THREAD_WAKE_SIGNAL - 1);

	return (int)syscall_raw(SYS_signalfd4, -1, (long)&mask, sizeof mask,
				SFD_NONBLOCK | SFD_CLOEXEC);
}

/*
 * The leader is a zombie and there are no others. libc ends the
 * process when the last of its threads returns, and that will be the keeper.
 */
int control_is_last(void)
{
	char text[TASKS_STAT_BYTES];
	struct stat found;

	if (kernel_call(SYS_newfstatat, AT_FDCWD, (long)"/proc/self/task", (long)&found, 0) ||
	    found.st_nlink != 2 + OUR_THREADS + 1)
		return 0;
	return *tasks_stat("/proc/self/stat", text) == 'Z';
}
