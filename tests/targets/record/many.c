/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/marker.h>
__attribute__((noinline)) int probed(int i)
{
	__asm__ volatile("" ::: "memory");
	return i * 3;
}
static int give_up(const char *what)
{
	if (!strcmp(what, "apart") && unshare(CLONE_NEWPID))
		return 77;
	if (!strcmp(what, "user") || !strcmp(what, "apart"))
		return setuid(65534);
	return !strcmp(what, "root") ? chroot(".") || chdir("/") : 0;
}
/* many WHAT CHILDREN HITS [ENDS] */
int main(int count, char **arguments)
{
	int children = atoi(arguments[2]), hits = atoi(arguments[3]);
	int error = give_up(arguments[1]);
	if (error)
		return error;
	for (int i = 0; i < children; i++) {
		pid_t pid = fork();
		if (pid < 0)
			return 1;
		if (pid)
			continue;
		for (int j = 0; j < hits; j++)
			WAYMARK(many, child, j);
		probed(i);
		if (count > 4) /* until the recorder has gone */
			while (access(arguments[4], F_OK)) {
				WAYMARK(many, more);
				usleep(1000);
			}
		_exit(0);
	}
	while (count <= 4 && wait(NULL) > 0)
		;
	return 0;
}
