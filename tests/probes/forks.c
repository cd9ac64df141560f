/* SPDX-License-Identifier: MIT */
/*
 * forks TIMES [FILE]: forks so often, one child after the other, and each calls serve() once. With
 * FILE its parent is stopped meanwhile, and how many seconds that took is written there.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline)) int serve(int number);

int serve(int number)
{
	/* an instruction that has room for a jump in any process */
	__asm__ volatile("test $0x12345678, %%rdi" : "+r"(number));
	return number + 1;
}

int main(int argc, char **argv)
{
	int times = argc > 1 ? atoi(argv[1]) : 1, status;
	time_t begin = time(NULL);

	if (argc > 2)
		kill(getppid(), SIGSTOP);
	for (int i = 0; i < times; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(serve(i) != i + 1);
		if (waitpid(pid, &status, 0) != pid || status)
			return 1;
	}
	if (argc > 2) {
		FILE *file = fopen(argv[2], "w");

		kill(getppid(), SIGCONT);
		if (!file || fprintf(file, "%d\n", (int)(time(NULL) - begin)) < 0 || fclose(file))
			return 1;
	}
	return 0;
}
