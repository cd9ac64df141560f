/* SPDX-License-Identifier: MIT */
#include "target/process/tracee.h"
#include "target/process/target.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define SPINS 40 /* before the first sleep: most stops come within 20 us */
#define SLEEP_NS_MAX 500000
#define END_MS 500 /* for one that was killed to end */

uint64_t tracee_deadline(unsigned int ms)
{
	return ticks_monotonic_ns() + ms * UINT64_C(1000000);
}

int tracee_late(uint64_t deadline_ns)
{
	return ticks_monotonic_ns() > deadline_ns;
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

/*
 * As waitid(2), at once. 1 when `what` has come, 0 when not, -ESRCH when there is nothing to wait
 * for.
 */
static int look(pid_t tid, int what, siginfo_t *info)
{
	int got;

	info->si_pid = 0;
	/* __WNOTHREAD: another thread of this process may have tracees of its own */
	do
		got = waitid(P_PID, (id_t)tid, info, what | WNOHANG | __WALL | __WNOTHREAD);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -ESRCH : info->si_pid == tid;
}

/*
 * Whether it has ended. Of a child of our own, which is somebody's in this process to wait for, the
 * end is left there: a wait takes it from both, the parent and the tracer.
 */
static int has_ended(pid_t tid)
{
	siginfo_t info;
	int found = look(tid, WEXITED | WNOWAIT, &info);

	/* the kernel reports stops to a tracer as well, whether it asks for them or not */
	if (found <= 0 || info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED)
		return found < 0;
	if (target_status_number(tid, "PPid") != getpid() ||
	    target_status_number(tid, "Tgid") != tid)
		look(tid, WEXITED, &info);
	return 1;
}

int tracee_look(pid_t tid, int *signal)
{
	siginfo_t info;

	/* its status is what wait(2) has behind the low byte */
	if (look(tid, WSTOPPED, &info) > 0)
		return stop_kind(info.si_status << 8 | 0x7f, signal);
	return has_ended(tid) ? -ESRCH : 0;
}

/*
 * Until a tracee's state changes, if SIGCHLD reports it: on a busy machine each sleep and look
 * would cost a turn of every other process.
 */
static void rest(long for_ns)
{
	const struct timespec time = { .tv_nsec = for_ns };
	sigset_t blocked, child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	if (!pthread_sigmask(SIG_BLOCK, NULL, &blocked) && sigismember(&blocked, SIGCHLD) == 1)
		sigtimedwait(&child, NULL, &time);
	else
		nanosleep(&time, NULL);
}

int tracee_wait(pid_t tid, uint64_t deadline_ns, int *signal)
{
	long sleep_ns = 5000;

	for (unsigned int tries = 0;; tries++) {
		int stop = tracee_look(tid, signal);

		if (stop)
			return stop;
		if (tries < SPINS)
			continue;
		if (tracee_late(deadline_ns))
			return -ETIMEDOUT;
		rest(sleep_ns);
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
	/* Every stop clears a pending interrupt (kernel/signal.c, ptrace_stop()): ask again. */
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
	uint64_t deadline_ns = tracee_deadline(END_MS);
	int stop = TRACEE_OTHER, signal = 0;

	while (ptrace(PTRACE_DETACH, tid, NULL, stop == TRACEE_SIGNAL ? signal : 0)) {
		stop = errno == ESRCH ? tracee_wait(tid, deadline_ns, &signal) : -errno;
		if (stop < 0)
			return stop;
	}
	return 0;
}
