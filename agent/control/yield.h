/* SPDX-License-Identifier: MIT */
/*
 * A thread of the program is about to put itself, or all, under a seccomp filter. Such a filter may
 * kill for the return from a signal, and for what the agent's own threads do. So before it is
 * there,
 *
 *         watches end, and their sessions are notified: no thread enters the agent's signal handler
 * any more      the agent no longer has the kernel read strings (agent/marker/careful.h)        if
 * the filter is for all threads, the agent's own threads end, and with them its sessions
 *
 * The thread waits for that, some ms, and two seconds at most: then it continues all the same. The
 * agent sees filters that come past libc at its next tick.
 */
#ifndef AGENT_CONTROL_YIELD_H
#define AGENT_CONTROL_YIELD_H

#include "agent/patch/text.h"

/* Before the call, and behind it, whatever came of it. Any thread. */
void yield_begin(int is_for_all);
void yield_end(void);

/* Whether any thread is between the two. */
int yield_is_asked(void);

/* Do what was asked; to be called in each round. Control thread. */
void yield_serve(const struct text *text);

/* All of it is done, and the control thread is to end. */
int yield_takes_all(void);

/* The child of a fork. */
void yield_forked(void);

#endif
