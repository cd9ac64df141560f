/* SPDX-License-Identifier: MIT */
/* A program that is linked with the agent and listens by itself. */
#include "inside.h"

#include <waymark/agent.h>

static int run_listen(void)
{
	return 5;
}

static const struct inside_case cases[] = { { "listen", run_listen }, { 0 } };

int main(int argc, char **argv)
{
	if (getenv("INSIDE_LISTEN"))
		want(wm_agent_listen() == 0, "listening");
	inside_map();
	if (getenv("INSIDE_WAIT"))
		inside_wait();
	hits(1000);
	return inside_main(argc, argv, cases);
}
