/* SPDX-License-Identifier: MIT */
/*
 * The agent's end of a stopper (abi/stopper.h): a process of a tool's that stops the threads and
 * stores jumps, where the kernel does not let our janitor do so. Control thread only.
 */
#ifndef AGENT_DETOUR_STOPPER_CLIENT_H
#define AGENT_DETOUR_STOPPER_CLIENT_H

#include "agent/detour/janitor.h"

/*
 * As janitor_run(), by a stopper; asks the tools of all sessions for one if needed. Guards
 * stay undone. -WM_E_NO_PTRACE: no tool gives one. -EAGAIN: the stopper was killed, or no tool
 * answered in time.
 */
int stopper_run(const struct text *text, struct janitor_site *sites, size_t count, int arm,
		unsigned int patience_ms, struct janitor_outcome *outcome);

/*
 * Now and then: ask for a stopper while a tool is there, if jumps are armed that only a stopper
 * can take away. The tool may be killed before they are.
 */
void stopper_tick(void);

/* Let the stopper end. */
void stopper_release(void);

/* The child of a fork has none. */
void stopper_forked(void);

#endif
