/* SPDX-License-Identifier: MIT */
/*
 * A program that runs already comes under the engine, and leaves it: what the tool, which holds a thread stopped by ptrace(2), has it
 * do (struct engine_places of abi/engine.h).
 *
 * Between any two steps the tool may be gone. Who then goes on by himself finds out whether the engine has been made ready, and is the
 * program's else: the first who asks decides it for all.
 */
#ifndef AGENT_TRAIL_ATTACH_H
#define AGENT_TRAIL_ATTACH_H

#include "agent/trail/thread.h"

/* For the tool: where all that is. */
void attach_places(struct engine_channel *head);

/*
 * In a thread of the program's that the tool has borrowed: a struct thread for each that is to be taken, and it is the first of them. Where that
 * can't be, back by the tool's own code.
 */
void attach_open(struct engine_channel *head, int err) __attribute__((noreturn));

#endif
