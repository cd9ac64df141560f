/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_ended.h"

#include "target/process/target.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* linux/pidfd.h of 6.15; older headers lack it. */
struct pidfd_report {
	uint64_t mask, cgroup;
	uint32_t pid, tgid, ppid, ids[8];
	int32_t exit_code;
};

#define PIDFD_GET_REPORT _IOWR(0xff, 11, struct pidfd_report)
#define PIDFD_REPORT_EXIT (UINT64_C(1) << 3)
#define STAT_STATUS 52	       /* proc_pid_stat(5): exit_code */
#define BY_PIDFD ((idtype_t)3) /* P_PIDFD, which older headers lack */
#define TRIES 20
#define TRY_NS 100000

int ended_open(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}

void ended_close(int fd)
{
	if (fd >= 0)
		close(fd);
}

int ended_is(int fd)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	return poll(&ready, 1, 0) > 0;
}

static int status_now(int fd, pid_t pid, int *status)
{
	struct pidfd_report report = { .mask = PIDFD_REPORT_EXIT };

	if (target_thread_state(pid, pid) == 'Z') {
		*status = (int)target_stat_field(pid, STAT_STATUS);
		/* still there afterwards: so it was this one that the number named */
		if (!syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0))
			return 0;
	}
	if (ioctl(fd, PIDFD_GET_REPORT, &report) || !(report.mask & PIDFD_REPORT_EXIT))
		return -ENODATA;
	*status = report.exit_code;
	return 0;
}

/* While it is reaped, it is a zombie no more, and the kernel does not report it yet. */
int ended_status(int fd, pid_t pid, int *status)
{
	int err = status_now(fd, pid, status);

	for (int i = 0; i < TRIES && err; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = TRY_NS }, NULL);
		err = status_now(fd, pid, status);
	}
	return err;
}

void ended_release(int fd, pid_t pid)
{
	siginfo_t info;

	if (fd >= 0 && target_status_number(pid, "PPid") != getpid())
		waitid(BY_PIDFD, (id_t)fd, &info, WEXITED | WNOHANG | __WALL | __WNOTHREAD);
}
