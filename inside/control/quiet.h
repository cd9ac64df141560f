/* SPDX-License-Identifier: MIT */
#ifndef INSIDE_CONTROL_QUIET_H
#define INSIDE_CONTROL_QUIET_H

#include "inside/control/session_table.h"
#include "inside/marker/marker.h"
#include "inside/patch/text.h"

/*
 * store_quiet() for a session's lane, with an eye to threads that only seem to be in a hit: where
 * it takes long, they are stopped to see. Returns 0, -ETIMEDOUT if one is. Control thread, under
 * the agent's lock.
 */
int quiet_wait(unsigned int lane, const struct text *text, unsigned int timeout_ms);

/*
 * Disarm all that the session has; its store is quiet then. -ETIMEDOUT: but for threads that don't
 * leave a hit of theirs; or another error. Control thread.
 */
int quiet_session(struct session *session, struct change *change, unsigned int timeout_ms);

#endif
