/* SPDX-License-Identifier: MIT */
/* The agent as a whole: its first moments, and program threads that call into it. */
#ifndef INSIDE_CONTROL_AGENT_H
#define INSIDE_CONTROL_AGENT_H

#include "inside/patch/text.h"

/*
 * Enter the registry from a program thread (inside/handler): starts the agent if it has not been,
 * takes the agent's lock, opens the means to write code. The registry knows the modules that are
 * loaded now. Not in a signal handler. Returns 0, -EBUSY if the lock was not to be had within two
 * seconds, -EDEADLK, -errno. After 0, agent_leave() must follow.
 */
int agent_enter(struct text *text);

/* Leave it: the loader is watched if the program has probes. */
void agent_leave(struct text *text);

/*
 * What an injected loader calls, in a new thread that is libc's own: `folder` is where to listen,
 * NULL or "" for the usual one. Returns when the agent listens or has failed to: NULL, or the error
 * as a number. The agent goes again if no tool comes within ten seconds. Harmless when it is there
 * already.
 */
void *waymark_agent_loaded(const char *folder);

/* The child of a fork, and around it. Registered by agent_start(). */
void fork_register(void);

#endif
