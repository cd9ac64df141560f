/* SPDX-License-Identifier: MIT */
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/marker.h>
int main(void)
{
	for (int i = 0; i < 1000000; i++) {
		pid_t pid = fork();
		if (!pid) {
			WAYMARK(server, child, i);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		WAYMARK(server, parent, i);
		usleep(2000);
	}
}
