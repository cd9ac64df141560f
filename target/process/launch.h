/* SPDX-License-Identifier: MIT */
/* Starting a program with the agent preloaded. */
#ifndef TARGET_PROCESS_LAUNCH_H
#define TARGET_PROCESS_LAUNCH_H

#include <sys/types.h>

struct launch_options {
	const char *agent; /* path of the agent library */
	const char *tool;  /* path of the socket that it shall connect to */
	int prearm;
	int is_traced; /* a child of the caller will trace it: permit that under Yama */
};

#define LAUNCH_OURS 4

/* What a program is started with that the agent is to be in: our environment and more. */
struct launch_environment {
	char **list;
	char *ours[LAUNCH_OURS]; /* those of it that are not environ's */
};

/* 0 or -ENOMEM. Release it also then. */
int launch_environment_make(struct launch_environment *environment,
			    const struct launch_options *options);
void launch_environment_release(struct launch_environment *environment);

/*
 * Start argv[0], which `path` is the file of, as our child: WAYMARK_TOOL set, the agent put in
 * front of what LD_PRELOAD has, the signal mask and the dispositions as ours. Returns its pid, or
 * the negative error with which execve(2) failed, the child then being reaped.
 */
int launch_start(pid_t *pid, const char *path, char *const argv[],
		 const struct launch_options *options);

#endif
