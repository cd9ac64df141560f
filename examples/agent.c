/* SPDX-License-Identifier: MIT */
/*
 * A program that is ready for tools: agent passes a marker for each line of its input. No tool has
 * to bring the agent in, so it can be static, or forbid ptrace(2). Link with -lwaymark-agent.
 */
#include <stdio.h>
#include <string.h>
#include <waymark/agent.h>
#include <waymark/error.h>
#include <waymark/marker.h>

int main(void)
{
	char line[256];
	int error = wm_agent_listen();

	if (error) {
		fprintf(stderr, "agent: %s\n", wm_error_text(error));
		return 1;
	}
	while (fgets(line, sizeof(line), stdin)) {
		WAYMARK(demo, line, strlen(line), WM_FIELD(text, (const char *)line));
		puts("passed");
		fflush(stdout);
	}
	return 0;
}
