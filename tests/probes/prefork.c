/* SPDX-License-Identifier: MIT */
/*
 * A server that forks: prefork CHILDREN ROUNDS [USER [THREADS]]. It starts all children at once.
 * Each calls serve(child, round) all the time; one that has called it ROUNDS times ends, and
 * another is forked in its place (ROUNDS 0: none ends). It runs until SIGTERM, and exits with 1 if
 * a child did not end well. With USER every child but the first changes to that user, with THREADS
 * under that RLIMIT_NPROC.
 */
#define _GNU_SOURCE
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN_MAX 64

__attribute__((noinline)) int serve(int child, int round);
int pass(int round); /* a jump: the bytes behind its opcode have to change */

#if defined __x86_64__
__asm__(".pushsection .text\n"
	".globl pass\n.type pass, @function\n"
	"pass:\n.cfi_startproc\n.byte 0xe9\n.long 1f - . - 4\n.cfi_endproc\n"
	".size pass, . - pass\n"
	".space 32, 0xcc\n"
	"1:	movl %edi, %eax\n	ret\n"
	".popsection\n");
#else
int pass(int round)
{
	return round;
}
#endif

static volatile sig_atomic_t ended;

static void end(int signal)
{
	(void)signal;
	ended = 1;
}

int serve(int child, int round)
{
	__asm__ volatile("" : "+r"(child), "+r"(round));
	return child * 1000 + round % 1000;
}

static int user, threads = -1;

static void drop_root(void)
{
	struct rlimit limit = { (rlim_t)threads, (rlim_t)threads };

	if (setgroups(0, NULL) || setgid((gid_t)user) || setuid((uid_t)user) ||
	    (threads >= 0 && setrlimit(RLIMIT_NPROC, &limit)))
		_exit(2);
}

static pid_t start(int child, int rounds)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	if (user && child)
		drop_root();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int round = 0; !rounds || round < rounds; round++) {
		if (serve(child, round) != child * 1000 + round % 1000 || pass(round) != round)
			_exit(1);
		if (!rounds)
			usleep(1000);
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	int children = argc > 1 ? atoi(argv[1]) : 2, rounds = argc > 2 ? atoi(argv[2]) : 0;
	pid_t pids[CHILDREN_MAX];
	int bad = 0;

	user = argc > 3 ? atoi(argv[3]) : 0;
	threads = argc > 4 ? atoi(argv[4]) : -1;
	if (children > CHILDREN_MAX)
		return 2;
	signal(SIGTERM, end);
	for (int i = 0; i < children; i++)
		pids[i] = start(i, rounds);
	while (!ended) {
		int status;
		pid_t pid;

		usleep(1000);
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
			bad |= status != 0;
			for (int i = 0; i < children; i++)
				if (pids[i] == pid)
					pids[i] = start(i, rounds);
		}
	}
	for (int i = 0; i < children; i++)
		kill(pids[i], SIGKILL);
	return bad;
}
