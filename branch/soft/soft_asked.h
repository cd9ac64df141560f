/* SPDX-License-Identifier: MIT */
/*
 * A thread that asks the tool to trace it, since it is about to execute a program (abi/engine.h,
 * enum engine_ask).
 */
#ifndef BRANCH_SOFT_SOFT_ASKED_H
#define BRANCH_SOFT_SOFT_ASKED_H

#include "branch/soft/soft_channel.h"
#include "process/target.h"

#include <sys/types.h>

/* What it asks for gains rights, that it would not have while it is traced. */
int asked_gains(const struct engine_channel *page, pid_t tid);

/*
 * Whether it is a thread of the process, and has the channel mapped: any recorded process may have
 * written these numbers there.
 */
int asked_is_thread(const struct soft_channel *channel, pid_t pid, pid_t tid);

/*
 * Read a new process, whose number any recorded process may have written. Accept a child of
 * `parent`, a process of the user `uid` and one that has the channel mapped. `end_fd` is its pidfd,
 * or -1. 0; -EPERM for any other process; -ESRCH: it has ended and nothing is known of it.
 */
int asked_child(const struct soft_channel *channel, struct target *target, pid_t pid, int end_fd,
		pid_t parent, uid_t uid);

/*
 * Whether to stop a vfork(2) child at its system calls: it may execute a program that gains rights,
 * or call PTRACE_TRACEME. posix_spawn(3) gives its child a stack, never calls that, and makes
 * dozens of calls.
 */
int asked_must_look(const struct engine_channel *page);

#endif
