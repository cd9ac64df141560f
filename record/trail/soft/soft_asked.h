/* SPDX-License-Identifier: MIT */
/*
 * A process that asks the tool for something (abi/engine.h): whether it is what it says, and may
 * have it.
 */
#ifndef RECORD_TRAIL_SOFT_SOFT_ASKED_H
#define RECORD_TRAIL_SOFT_SOFT_ASKED_H

#include "record/trail/soft/soft_channel.h"
#include "target/process/target.h"

#include <sys/types.h>

/* What a thread asks to execute gains privileges, that it would not have while it is traced. */
int asked_gains(const struct engine_channel *head, pid_t tid);

/*
 * Whether it is a thread of the process, and has the channel mapped: the recorded process may have
 * written any number there.
 */
int asked_is_thread(const struct soft_channel *channel, pid_t pid, pid_t tid);

/*
 * The memfd that a forked child of `parent`, its `count`th, has made for its channel: a descriptor;
 * -ENOENT: it has none; or -EACCES: we may not look. A process that was made otherwise has none of
 * that name. This function looks at `all` descriptors of the child, and stores the memfd's in
 * *number; or at *number alone.
 */
int asked_channel(pid_t pid, pid_t parent, uint32_t count, int *number, int all);

/*
 * Whether to stop a vfork(2) child at its system calls: it may execute a program that gains
 * privileges, or call PTRACE_TRACEME. posix_spawn(3) gives its child a stack, never calls that,
 * and makes dozens of calls.
 */
int asked_must_look(const struct engine_child *entry);

#endif
