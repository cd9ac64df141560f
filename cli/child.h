/* SPDX-License-Identifier: MIT */
/*
 * The program that a command started, and the signals that end the command: who presses Ctrl-C
 * means the program too, and what it still does is to be seen.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include <stdint.h>
#include <sys/types.h>

struct child {
	pid_t pid; /* 0: none, or reaped */
	/*
	 * As an exit status, once reaped; of one that a signal ended 128 and its number. Of one
	 * that outlives our patience 128 and SIGINT.
	 */
	int status;
	int is_crashed;	   /* a signal ended it, and the command was not asked to end */
	uint64_t asked_ns; /* when its end was asked for first */
	/* of child_start(); 0: none */
	int gate;  /* a byte lets it execute; what comes back is the errno of a failed execve(2) */
	int pidfd; /* readable at its end; -1: the kernel has none */
};

/*
 * Before anything is started: SIGINT, SIGTERM, SIGHUP and SIGQUIT are counted, and end no command.
 * SIGPIPE and SIGXFSZ become errors of write(2). Handlers do that: a signal that is ignored here
 * would be ignored in the program too. Signals that were ignored stay so.
 */
void child_catch_signals(void);

/*
 * Start a program, which waits before it executes, so that what is to follow it can begin. argv as
 * for execvp(3). 0 or -errno. Then let it execute: 0, or the -errno of execve(2).
 */
int child_start(struct child *child, char **argv);
int child_go(struct child *child);

/* How many of those that end a command have come. */
int child_interrupts(void);

/*
 * The program gets one that it didn't get by itself: the terminal sends to its whole foreground
 * group, anyone else meant us.
 */
void child_pass_signal_on(const struct child *child);

/* Whether there is no program to wait for any more; flags as waitpid(2). */
int child_reap(struct child *child, int flags);

/*
 * Whether a signal ends the command now, which it passes on to the program: at once where there is
 * none; else the program has 2 s for its end, until the next signal.
 */
int child_is_interrupted(struct child *child, uint64_t now_ns);

/*
 * Wait until it is over, or two more signals say that it is to be left to itself. One that was not
 * let go ends without executing.
 */
void child_wait(struct child *child);

/* What it was started for failed: end it. */
void child_kill(struct child *child);

#endif
