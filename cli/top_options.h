/* SPDX-License-Identifier: MIT */
/* The command line of `waymark top`. */
#ifndef CLI_TOP_OPTIONS_H
#define CLI_TOP_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct top_options {
	const char **specs; /* none: the default ones */
	size_t spec_count;
	pid_t *pids;
	size_t pid_count, pid_room;
	const char *cpus, *cgroup; /* as struct wm_session_options has them */
	const char *output;	   /* where the program's output goes; NULL: nowhere */
	char **command;		   /* NULL: none */
	uint64_t interval_ns, for_ns, buffer_bytes;
	uint64_t row_max;
	int json, tree, no_follow;
};

/* As record_options_parse(): -1 to continue, else the exit status. Release in either case. */
int top_options_parse(struct top_options *options, int argc, char **argv);
void top_options_release(struct top_options *options);

#endif
