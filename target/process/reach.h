/* SPDX-License-Identifier: MIT */
/* The agent that is in a process already. */
#ifndef TARGET_PROCESS_REACH_H
#define TARGET_PROCESS_REACH_H

#include "base/socketdir.h"
#include "target/process/link.h"
#include "target/process/target.h"

/*
 * Connect to the agent that listens for this process, in whichever folder it does. 0; -ENOENT when
 * none does; what link_connect() returns.
 */
int reach_agent(const struct target *target, struct link *link);

/* The private folder (base/socketdir.h) that its agent listens in. 0, or -ENOENT. */
int reach_published(pid_t pid, char dir[SOCKETDIR_BYTES]);

/*
 * 0: an agent is in the process, or can come into it; -WM_E_INJECT, with words: it has no room for
 * one's threads.
 */
int reach_limits(const struct target *target, struct detail detail);

/*
 * Whether a thread is one of the agent's: by the names that these give themselves, and by the
 * control thread's own descriptors (abi/control.h, CONTROL_NAMED).
 */
int reach_is_agents(pid_t pid, pid_t tid);

/*
 * Whether its agent listens in the folder that it calls `dir`: as the kernel lists it, nothing is
 * connected. The target is renewed where the thread ended that it was looked at by.
 */
int reach_listens(struct target *target, const char *dir);

#endif
