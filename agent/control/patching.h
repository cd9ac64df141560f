/* SPDX-License-Identifier: MIT */
#ifndef AGENT_CONTROL_PATCHING_H
#define AGENT_CONTROL_PATCHING_H

#include "agent/patch/text.h"

/*
 * Take the agent's lock at a moment when code may be patched: not while the loader takes a module
 * away. Strict: all other threads are stopped, so there is nothing to wait for. 0, -EBUSY,
 * -EDEADLK.
 */
int patching_lock(const struct text *text, int strict);

#endif
