/* SPDX-License-Identifier: MIT */
#include "cli/child.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ASKED_NS 2000000000u /* for the program to end while it is still recorded */
#define GIVE_UP_COUNT 3
#define GIVE_UP_S 1

static volatile sig_atomic_t interrupts, seen;
static volatile time_t first_unseen_s;
static volatile sig_atomic_t to_pass_on; /* a signal that the child didn't get by itself */

/*
 * Signals that no one looks at for a second: the command is busy, and the user wants its end. By
 * the signal's own action: the trace is repaired, and a trail's helper sees that we are gone.
 */
static void give_up_if_unseen(int number)
{
	static const char words[] = "waymark: ended in the middle of its work\n";
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (interrupts - seen == 1)
		first_unseen_s = now.tv_sec;
	if (interrupts - seen < GIVE_UP_COUNT || now.tv_sec - first_unseen_s < GIVE_UP_S)
		return;
	(void)!write(STDERR_FILENO, words, sizeof(words) - 1);
	signal(number, SIG_DFL);
	raise(number);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
	(void)context;
	interrupts = interrupts + 1;
	give_up_if_unseen(signal);
	if (info->si_code <= 0 || info->si_code == SI_USER)
		to_pass_on = signal;
}

static void on_nothing(int signal)
{
	(void)signal;
}

void child_catch_signals(void)
{
	static const int ending[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	static const int quiet[] = { SIGPIPE, SIGXFSZ };
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	struct sigaction nothing = { .sa_handler = on_nothing, .sa_flags = SA_RESTART };
	struct sigaction before;

	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
		sigaction(ending[i], NULL, &before);
		if (before.sa_handler != SIG_IGN)
			sigaction(ending[i], &action, NULL);
	}
	for (size_t i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++) {
		sigaction(quiet[i], NULL, &before);
		if (before.sa_handler != SIG_IGN)
			sigaction(quiet[i], &nothing, NULL);
	}
}

static _Noreturn void gate_pass(int gate, char **argv)
{
	char byte;
	int error;

	if (read(gate, &byte, 1) == 1) {
		execvp(argv[0], argv);
		error = errno;
		(void)!write(gate, &error, sizeof(error));
	}
	_exit(127);
}

int child_start(struct child *child, char **argv)
{
	int ends[2];

	*child = (struct child){ .pidfd = -1 };
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return -errno;
	child->pid = fork();
	if (!child->pid) {
		close(ends[0]);
		gate_pass(ends[1], argv);
	}
	close(ends[1]);
	child->gate = ends[0];
	if (child->pid > 0) {
		child->pidfd = (int)syscall(SYS_pidfd_open, child->pid, 0);
		return 0;
	}
	child->pid = 0;
	child_wait(child);
	return -EAGAIN;
}

int child_go(struct child *child)
{
	int error = 0;
	ssize_t bytes;

	if (send(child->gate, "", 1, MSG_NOSIGNAL) != 1)
		return -EPIPE;
	do
		bytes = read(child->gate, &error, sizeof(error));
	while (bytes < 0 && errno == EINTR);
	return bytes == sizeof(error) ? -error : 0;
}

int child_interrupts(void)
{
	return seen = interrupts;
}

int child_reap(struct child *child, int flags)
{
	int status;
	pid_t got;

	if (!child->pid)
		return 1;
	got = waitpid(child->pid, &status, flags);
	if (got != child->pid && !(got < 0 && errno == ECHILD))
		return 0;
	child->pid = 0;
	if (got <= 0)
		return 1;
	child->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	child->is_crashed = WIFSIGNALED(status) && !interrupts;
	return 1;
}

void child_pass_signal_on(const struct child *child)
{
	int signal = to_pass_on;

	seen = interrupts;
	if (!signal)
		return;
	to_pass_on = 0;
	if (child->pid)
		kill(child->pid, signal);
}

int child_is_interrupted(struct child *child, uint64_t now_ns)
{
	if (!child_interrupts())
		return 0;
	child_pass_signal_on(child);
	child->asked_ns = child->asked_ns ? child->asked_ns : now_ns;
	return !child->pid || interrupts > 1 || now_ns - child->asked_ns > ASKED_NS;
}

void child_wait(struct child *child)
{
	int patience = interrupts + 2;

	if (child->gate)
		close(child->gate);
	if (child->pidfd > 0)
		close(child->pidfd);
	child->gate = child->pidfd = 0;
	do
		child_pass_signal_on(child);
	while (!child_reap(child, 0) && interrupts < patience);
	if (child->pid)
		child->status = 128 + SIGINT;
}

void child_kill(struct child *child)
{
	if (child->pid)
		kill(child->pid, SIGKILL);
	while (!child_reap(child, 0))
		;
}
