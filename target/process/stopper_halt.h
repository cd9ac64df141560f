/* SPDX-License-Identifier: MIT */
/* One stop, in the process that a stopper forked for it. */
#ifndef TARGET_PROCESS_STOPPER_HALT_H
#define TARGET_PROCESS_STOPPER_HALT_H

#include "abi/stopper.h"

#include <sys/types.h>

/* What the stopper shares with the processes that it forks. */
struct stopper_job {
	struct stopper_answer answer;
	struct stopper_request request;
	struct stopper_change changes[STOPPER_CHANGES_MAX];
};

struct stopper_target {
	pid_t pid;
	int socket; /* to the agent */
	int tasks;  /* /proc/PID/task */
	int memory; /* /proc/PID/mem */
};

/*
 * Stop all threads, make the changes that can be made, let all threads go. What came of it is in
 * job->answer. Has SIGCHLD blocked. Threads that could not be stopped are let go by this
 * process's end.
 */
void stopper_halt(const struct stopper_target *target, struct stopper_job *job);

#endif
