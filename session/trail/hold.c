/* SPDX-License-Identifier: MIT */
/* How a step takes a process, and lets it go. */
#include "session/ticks.h"
#include "session/trail/step_own.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CLOSE_NS 2000000000u
#define ATTACH_ROUNDS 20

static int trail_begin(struct step *step)
{
	int err = step->sink->calls->begin(step->sink, step->pid);

	step->modules.sink = step->sink;
	return err ? err : modules_note(&step->modules, step->pid);
}

static struct step *step_new(struct trail_sink *sink)
{
	struct step *step = calloc(1, sizeof(*step));

	if (step)
		step->sink = sink;
	return step;
}

/* In the child: wait to be seized, then be the program. What execve(2) says comes back over the socket. */
static void become(int sock, const char *path, char *const argv[])
{
	char byte;
	int err;

	if (read(sock, &byte, 1) == 1)
		execv(path, argv);
	err = errno;
	(void)!write(sock, &err, sizeof(err));
	_exit(127);
}

/* Up to its PTRACE_EVENT_EXEC. */
static int await_exec(struct step *step, int sock)
{
	int status, err = 0;

	if (ptrace(PTRACE_SEIZE, step->pid, 0, STEP_OPTIONS) < 0 || write(sock, "", 1) != 1)
		return -errno;
	if (waitpid(step->pid, &status, __WALL) < 0)
		return -errno;
	if (WIFSTOPPED(status) && status >> 16 == PTRACE_EVENT_EXEC)
		return 0;
	if (recv(sock, &err, sizeof(err), MSG_DONTWAIT) != sizeof(err) || !err)
		err = ECHILD;
	return -err;
}

int step_launch(struct step **out, struct trail_sink *sink, const char *path, char *const argv[])
{
	struct step *step = *out = step_new(sink);
	struct step_thread *thread = NULL;
	int socks[2], err;

	if (!step)
		return -ENOMEM;
	err = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks) ? -errno : 0;
	if (!err) {
		step->pid = fork();
		if (!step->pid) {
			close(socks[0]);
			become(socks[1], path, argv);
		}
		close(socks[1]);
		err = step->pid < 0 ? -errno : await_exec(step, socks[0]);
		close(socks[0]);
	}
	if (!err)
		err = trail_begin(step);
	if (!err)
		thread = step_thread_add(step, step->pid);
	if (thread) /* with the system call's end, before the first instruction */
		thread->is_stopped = ptrace(PTRACE_SINGLESTEP, step->pid, 0, 0) < 0;
	err = err ? err : step->error;
	if (!err)
		return 0;
	if (step->pid > 0) {
		kill(step->pid, SIGKILL);
		ptrace(PTRACE_CONT, step->pid, 0,
		       0); /* one that is ending stops for us, and can't be killed */
		waitpid(step->pid, NULL, __WALL);
	}
	step->pid = 0;
	step_close(step);
	*out = NULL;
	return err;
}

/* Seize the threads that are there and were not seized yet. How many, or the error that ended it. */
static int seize_all(struct step *step)
{
	char path[64];
	struct dirent *entry;
	int count = 0, err = 0;
	DIR *list;

	snprintf(path, sizeof(path), "/proc/%d/task", step->pid);
	list = opendir(path);
	if (!list)
		return -errno;
	while (!err && (entry = readdir(list))) {
		pid_t tid = (pid_t)atoi(entry->d_name);

		if (tid <= 0 || step_thread_find(step, tid))
			continue;
		if (ptrace(PTRACE_SEIZE, tid, 0, STEP_OPTIONS) < 0) {
			err = errno == ESRCH ? 0 : -errno;
			continue;
		}
		count++;
		ptrace(PTRACE_INTERRUPT, tid, 0, 0);
		step_thread_add(step, tid);
	}
	closedir(list);
	return err ? err : count;
}

int step_attach(struct step **out, struct trail_sink *sink, pid_t pid)
{
	struct step *step = *out = step_new(sink);
	int err, found = 1;

	if (!step)
		return -ENOMEM;
	step->pid = pid;
	err = trail_begin(step);
	/* threads that these start meanwhile are seized by the kernel, others' are found in the next round */
	for (int i = 0; !err && found > 0 && i < ATTACH_ROUNDS; i++)
		found = seize_all(step);
	err = err ? err : found < 0 ? found : step->error;
	if (!err && step->threads)
		return 0;
	step_close(step);
	*out = NULL;
	return err ? err : -ESRCH;
}

#define WAITING_MAX 64

/* Whether a step's SIGTRAP is still to come: it would kill who is let go. */
static int trap_waits(pid_t tid)
{
	struct __ptrace_peeksiginfo_args which = { .nr = WAITING_MAX };
	siginfo_t waiting[WAITING_MAX];
	long count = ptrace(PTRACE_PEEKSIGINFO, tid, &which, waiting);

	for (long i = 0; i < count; i++)
		if (waiting[i].si_signo == SIGTRAP && waiting[i].si_code > 0)
			return 1;
	return 0;
}

/* Stopped, and let go: nothing of a step is left in it. */
static void detach(struct step *step, struct step_thread *thread, uint64_t end_ns)
{
	struct user_regs_struct regs;
	int status, signal = 0;

	if (!thread->is_stopped)
		ptrace(PTRACE_INTERRUPT, thread->tid, 0, 0);
	while (!thread->is_stopped) {
		pid_t got = waitpid(thread->tid, &status, __WALL | WNOHANG);

		if (got < 0 || (got > 0 && !WIFSTOPPED(status)) || ticks_monotonic_ns() > end_ns)
			return;
		if (!got) {
			nanosleep(&(struct timespec){ .tv_nsec = STEP_NAP_NS }, NULL);
			continue;
		}
		if (status >> 16 && trap_waits(thread->tid)) {
			ptrace(PTRACE_CONT, thread->tid, 0, 0); /* it stops for that at once */
			continue;
		}
		thread->is_stopped = 1;
		if (!(status >> 16) && WSTOPSIG(status) != SIGTRAP)
			signal = WSTOPSIG(status);
	}
	if (!ptrace(PTRACE_GETREGS, thread->tid, 0, &regs) && thread->is_begun) {
		if (regs.rip != thread->at)
			step_ran(step, thread, regs.rip);
		step_hide_flag(thread, &regs);
		step_event(step, thread, TRAIL_END, 0, TRAIL_DETACHED, 0);
	}
	ptrace(PTRACE_DETACH, thread->tid, 0, signal);
}

int step_close(struct step *step)
{
	uint64_t end_ns = ticks_monotonic_ns() + CLOSE_NS;
	int err;

	if (!step)
		return 0;
	if (step->threads)
		step_failed(step, modules_note(&step->modules, step->pid));
	while (step->threads) {
		detach(step, step->threads, end_ns);
		step_thread_remove(step, step->threads);
	}
	modules_release(&step->modules);
	err = step->error;
	free(step);
	return err;
}
