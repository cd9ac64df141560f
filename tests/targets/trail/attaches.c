/* SPDX-License-Identifier: MIT */
/* Attaches to its child over and over, and leaves it again, while signals come. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 100

static void pass(int number)
{
	(void)number;
}

int main(void)
{
	const struct itimerval often = { { 0, 100 }, { 0, 100 } }, never = { { 0, 0 }, { 0, 0 } };
	struct sigaction action = { .sa_handler = pass, .sa_flags = SA_RESTART };
	int attached = 0, status;
	pid_t child = fork();

	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	sigaction(SIGALRM, &action, NULL);
	sigaction(SIGCHLD, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < ROUNDS && !ptrace(PTRACE_ATTACH, child, 0, 0); i++) {
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
		attached++;
		ptrace(PTRACE_DETACH, child, 0, 0);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	kill(child, SIGKILL);
	printf("attached %d\n", attached);
	return 0;
}
