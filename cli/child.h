/* SPDX-License-Identifier: MIT */
/*
 * The program that a command started, and the signals that end the command: who presses Ctrl-C
 * means the program too, and what it still does is to be seen.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include <sys/types.h>

struct child {
	pid_t pid; /* 0: none, or reaped */
	/* as an exit status, once reaped; of one that a signal ended 128 and its number */
	int status;
};

/*
 * Before anything is started: SIGINT, SIGTERM, SIGHUP and SIGQUIT are counted, and end no command.
 * SIGPIPE and SIGXFSZ become errors of write(2). Handlers do that: a signal that is ignored here
 * would be ignored in the program too. Signals that were ignored stay so.
 */
void child_catch_signals(void);

/* How many of those that end a command have come. */
int child_interrupts(void);

/*
 * The program gets one that it didn't get by itself: the terminal sends to its whole foreground
 * group, anyone else meant us.
 */
void child_pass_signal_on(const struct child *child);

/* Whether there is no program to wait for any more; flags as waitpid(2). */
int child_reap(struct child *child, int flags);

/* Wait until it is over, or two more signals say that it is to be left to itself. */
void child_wait(struct child *child);

#endif
