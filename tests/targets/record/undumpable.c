/* SPDX-License-Identifier: MIT */
/* Is not dumpable any more when it forks its children. */
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/marker.h>
int main(void)
{
	prctl(PR_SET_DUMPABLE, 0);
	for (int i = 0; i < 5; i++) {
		if (!fork()) {
			WAYMARK(undumpable, child, i);
			_exit(0);
		}
		wait(NULL);
	}
	return 0;
}
