/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Seizes all threads, is given no processor for a while, stops them, lets them go; again and
 * again.
 */
int main(int argc, char **argv)
{
	for (int round = 0; argc > 1 && round < 30; round++) {
		struct dirent *entry;
		pid_t tids[64];
		char path[64];
		int count = 0;
		DIR *dir;

		snprintf(path, sizeof(path), "/proc/%s/task", argv[1]);
		dir = opendir(path);
		while (dir && (entry = readdir(dir))) {
			pid_t tid = atoi(entry->d_name);

			if (tid && count < 64 && !ptrace(PTRACE_SEIZE, tid, 0, 0))
				tids[count++] = tid;
		}
		if (dir)
			closedir(dir);
		usleep(12000);
		for (int i = 0; i < count; i++)
			if (!ptrace(PTRACE_INTERRUPT, tids[i], 0, 0) &&
			    waitpid(tids[i], NULL, __WALL) == tids[i])
				ptrace(PTRACE_DETACH, tids[i], 0, 0);
		usleep(60000);
	}
	return 0;
}
