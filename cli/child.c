/* SPDX-License-Identifier: MIT */
#include "cli/child.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>

static volatile sig_atomic_t interrupts;
static volatile sig_atomic_t to_pass_on; /* a signal that the child didn't get by itself */

static void on_signal(int signal, siginfo_t *info, void *context)
{
	(void)context;
	interrupts = interrupts + 1;
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

int child_interrupts(void)
{
	return interrupts;
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
	if (got > 0)
		child->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	return 1;
}

void child_pass_signal_on(const struct child *child)
{
	int signal = to_pass_on;

	if (!signal)
		return;
	to_pass_on = 0;
	if (child->pid)
		kill(child->pid, signal);
}

void child_wait(struct child *child)
{
	int patience = interrupts + 2;

	do
		child_pass_signal_on(child);
	while (!child_reap(child, 0) && interrupts < patience);
}
