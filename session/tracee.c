/* SPDX-License-Identifier: MIT */
#include "session/tracee.h"
#include "session/target.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define SPINS 200 /* before the first sleep: most stops come within 20 us */
#define SLEEP_NS_MAX 500000

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t tracee_deadline(unsigned int ms)
{
	return now_ns() + ms * UINT64_C(1000000);
}

int tracee_late(uint64_t deadline_ns)
{
	return now_ns() > deadline_ns;
}

static int stop_kind(int status, int *signal)
{
	*signal = WSTOPSIG(status);
	if (*signal == (SIGTRAP | 0x80)) /* PTRACE_O_TRACESYSGOOD */
		return TRACEE_SYSCALL;
	if (status >> 16 == PTRACE_EVENT_STOP)
		return *signal == SIGTRAP ? TRACEE_INTERRUPTED : TRACEE_GROUP_STOP;
	if (status >> 16)
		return TRACEE_OTHER;
	return TRACEE_SIGNAL;
}

int tracee_wait(pid_t tid, uint64_t deadline_ns, int *signal)
{
	long sleep_ns = 5000;

	for (unsigned int tries = 0;; tries++) {
		int status;
		/* __WNOTHREAD: another thread of ours may hold tracees of its own */
		pid_t got = waitpid(tid, &status, WNOHANG | __WALL | __WNOTHREAD);

		if (got < 0 && errno != EINTR)
			return -ESRCH;
		if (got == tid)
			return WIFSTOPPED(status) ? stop_kind(status, signal) : -ESRCH;
		if (tries < SPINS)
			continue;
		if (tracee_late(deadline_ns))
			return -ETIMEDOUT;
		nanosleep(&(struct timespec){ .tv_nsec = sleep_ns }, NULL);
		if (sleep_ns < SLEEP_NS_MAX)
			sleep_ns *= 2;
	}
}

int tracee_seize(pid_t tid)
{
	if (ptrace(PTRACE_SEIZE, tid, NULL, PTRACE_O_TRACESYSGOOD)) {
		int err = -errno;

		if (err != -EPERM || target_status_number(tid, "TracerPid") != gettid())
			return err;
	}
	return ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) ? -errno : 0;
}

int tracee_interrupt(pid_t tid, int stop, int signal)
{
	/* Every stop takes a pending interrupt with it (kernel/signal.c, ptrace_stop()): ask anew. */
	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) ||
	    ptrace(PTRACE_CONT, tid, NULL, stop == TRACEE_SIGNAL ? signal : 0))
		return -ESRCH;
	return 0;
}

int tracee_stop(pid_t tid, uint64_t deadline_ns)
{
	for (;;) {
		int signal, stop = tracee_wait(tid, deadline_ns, &signal);

		if (stop < 0)
			return stop;
		if (stop == TRACEE_INTERRUPTED)
			return 0;
		if (stop == TRACEE_GROUP_STOP) {
			tracee_detach(tid);
			return -WM_E_STOPPED;
		}
		stop = tracee_interrupt(tid, stop, signal);
		if (stop)
			return stop;
	}
}

int tracee_detach(pid_t tid)
{
	return ptrace(PTRACE_DETACH, tid, NULL, NULL) ? -errno : 0;
}
