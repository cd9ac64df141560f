/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <waymark/agent.h>
#include <waymark/marker.h>
int main(int argc, char **argv)
{
	if (argc > 1)
		prctl(PR_SET_DUMPABLE, 0);
	if (wm_agent_listen())
		return 1;
	for (;;) {
		WAYMARK(listens, tick, argc);
		usleep(1000);
	}
}
