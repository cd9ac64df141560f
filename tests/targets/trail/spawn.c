/* SPDX-License-Identifier: MIT */
/* posix_spawn and system: what they start is left alone. */
#include "program.h"

#include <spawn.h>
#include <stddef.h>
#include <sys/wait.h>

ATTACHED;
EXPECT("spawning spawned waited left");

int main(void)
{
	char *argv[] = { (char *)"/bin/sh", (char *)"-c", (char *)"exit 6", NULL };
	int status = 0;
	pid_t pid;

	begin();
	PASS(spawning);
	if (posix_spawn(&pid, argv[0], NULL, NULL, argv, NULL))
		leave(1);
	PASS(spawned);
	waitpid(pid, &status, 0);
	PASS(waited);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 6)
		leave(2);
	PASS(left);
	leave(0);
}
