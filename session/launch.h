/* SPDX-License-Identifier: MIT */
/* Starting a program with the agent preloaded. */
#ifndef SESSION_LAUNCH_H
#define SESSION_LAUNCH_H

#include <sys/types.h>

struct launch_options {
	const char *agent; /* path of the agent library */
	const char *tool;  /* path of the socket that it shall connect to */
	int prearm;
	int is_traced; /* a child of ours is to trace it: Yama is told that it may */
};

/*
 * Start argv[0], which `path` is the file of, as our child: WAYMARK_TOOL set, the agent put in front
 * of what LD_PRELOAD has, the signal mask and the dispositions as ours. Returns its pid, or the
 * negative error with which execve(2) failed, the child then being reaped.
 */
int launch_start(pid_t *pid, const char *path, char *const argv[],
		 const struct launch_options *options);

#endif
