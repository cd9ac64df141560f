/* SPDX-License-Identifier: MIT */
/* Has three children, which end when a line is read. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
	int ends[2];
	char byte;

	if (pipe(ends))
		return 1;
	for (int i = 0; i < 3; i++)
		if (!fork()) {
			close(ends[1]);
			_exit(read(ends[0], &byte, 1) != 0);
		}
	puts("ready");
	fflush(stdout);
	getchar();
	close(ends[1]);
	while (wait(NULL) > 0)
		;
	puts("over");
	return 0;
}
