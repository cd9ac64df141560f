/* SPDX-License-Identifier: MIT */
#ifndef INSIDE_CONTROL_PATCHING_H
#define INSIDE_CONTROL_PATCHING_H

#include "inside/patch/text.h"

/*
 * Take the agent's lock at a moment when code may be patched: not while the loader takes a module
 * away. Strict: all other threads are stopped, so there is nothing to wait for. 0, -EBUSY,
 * -EDEADLK.
 */
int patching_lock(const struct text *text, int strict);

#endif
