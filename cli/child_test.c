/* SPDX-License-Identifier: MIT */
#include "cli/child.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEP_US 400000 /* the time between two signals is the subject */

/* How a process ends that is busy, and gets a signal `times` times. -1: it does not. */
static int end_of_busy(int number, int times, int looks)
{
	int ready[2], status = -1, has_ended;
	pid_t pid;
	char byte;

	cr_assert_eq(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		child_catch_signals();
		(void)!write(ready[1], "", 1);
		for (;;)
			if (looks)
				child_interrupts();
	}
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	for (int i = 0; i < times; i++) {
		kill(pid, number);
		usleep(STEP_US);
	}
	has_ended = waitpid(pid, &status, WNOHANG) == pid;
	if (!has_ended) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return has_ended && WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

Test(child, busy_command_ends_at_repeated_signals, .timeout = 30)
{
	cr_expect_eq(end_of_busy(SIGINT, 6, 0), SIGINT);
	cr_expect_eq(end_of_busy(SIGTERM, 6, 0), SIGTERM);
}

Test(child, command_that_looks_at_signals_continues, .timeout = 30)
{
	cr_expect_eq(end_of_busy(SIGINT, 6, 1), -1);
}

Test(child, signals_of_one_moment_count_once, .timeout = 30)
{
	cr_expect_eq(end_of_busy(SIGINT, 2, 0), -1);
}
