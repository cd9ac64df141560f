/* SPDX-License-Identifier: MIT */
/* Becomes a daemon between its events. */
#include <unistd.h>
#include <waymark/marker.h>
int main(void)
{
	for (int i = 0; i < 5; i++)
		WAYMARK(work, tick, i);
	if (daemon(1, 1))
		return 1;
	for (int i = 0; i < 120; i++) {
		WAYMARK(work, tick, i);
		usleep(25000); /* 3 s in all: a recording waits 1 s for children that end */
	}
	return 0;
}
