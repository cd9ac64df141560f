/* SPDX-License-Identifier: MIT */
/*
 * What the child of a fork has of its parent's sessions: code and trampolines are its own copies
 * already, so a session of the same tool can have them for the asking (ADOPT).
 */
#ifndef INSIDE_CONTROL_INHERIT_H
#define INSIDE_CONTROL_INHERIT_H

#include "abi/control.h"

/*
 * The child of a fork, before it forgets its parent's sessions. `whole`: the agent's lock was held
 * at the fork; else nothing is known of them.
 */
void inherit_forked(int whole);

/* What there is of the session that the tool at this path has with the parent; NULL: nothing. */
const struct control_inherited *inherit_find(const char *tool);

/*
 * Let the session of a lane, to which the tool at `tool` belongs, have what was placed for its
 * parent's. It has opened its store and armed nothing. Returns the number of places; -ENOENT where
 * `set` is not what was inherited, -EBUSY. Under the agent's lock.
 */
int inherit_adopt(unsigned int lane, const char *tool, uint64_t set);

#endif
