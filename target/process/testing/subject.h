/* SPDX-License-Identifier: MIT */
/*
 * Programs that tests enter and stop: those of tests/targets, beside the test in the build folder.
 */
#ifndef TARGET_PROCESS_TESTING_SUBJECT_H
#define TARGET_PROCESS_TESTING_SUBJECT_H

#include <limits.h>
#include <sys/types.h>

struct subject {
	pid_t pid;
	int end;      /* closing it has the target end */
	int out;      /* what it writes to, or -1 */
	char dir[64]; /* for sockets; its own */
};

/* The path of a target or library of tests/targets. */
void subject_file(char path[PATH_MAX], const char *name);

/* Start one and wait until it is under way. Fails the test where it can't. */
void subject_start(struct subject *subject, const char *name, const char *argument);
void subject_start_command(struct subject *subject, char *const argv[]);

/* Execute one without waiting for it: it has hardly begun. */
void subject_begin(struct subject *subject, char *const argv[]);

/* End it; it must find that all was well. */
void subject_end(struct subject *subject);

/* Connect to the stand-in agent, so that it leaves, and wait for that. */
void subject_agent_leave(struct subject *subject);

int subject_lives(const struct subject *subject);

/* Wait until it has slept and gone on a few times. Fails the test when it ends instead. */
void subject_goes_on(const struct subject *subject);
char subject_state(const struct subject *subject);
int subject_map_count(const struct subject *subject);

/* Become another user until the process ends. 0: that one can't read the targets. */
int subject_become(uid_t uid);

#endif
