/* SPDX-License-Identifier: MIT */
/* Forks a child that executes it again; each has an event. */
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/marker.h>
int main(int argc, char **argv)
{
	int child;

	WAYMARK(forks, run, argc);
	if (argc > 1 && *argv[1] == 'a')
		return 0;
	if (argc > 1 && *argv[1] == 'e')
		return execl("./slow", "./slow", (char *)0);
	child = fork();
	if (!child) {
		WAYMARK(forks, child, argc);
		execl(argv[0], argv[0], "again", (char *)0);
		return 1;
	}
	while (argc > 1)
		pause();
	return waitpid(child, 0, 0) != child;
}
