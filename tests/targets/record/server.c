/* SPDX-License-Identifier: MIT */
/* server [COUNT]: forks a child each 2 ms; or so many, and is not dumpable any more. */
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/marker.h>

int main(int count, char **arguments)
{
	int children = count > 1 ? atoi(arguments[1]) : 1000000;

	if (count > 1)
		prctl(PR_SET_DUMPABLE, 0);
	for (int i = 0; i < children; i++) {
		pid_t pid = fork();

		if (!pid) {
			WAYMARK(server, child, i);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		WAYMARK(server, parent, i);
		usleep(2000);
	}
	return 0;
}
