/* SPDX-License-Identifier: MIT */
/* Watches with `signal=STOP`: each hit stops the program, so that its user can look at it. */
#ifndef CLI_WATCH_STOP_H
#define CLI_WATCH_STOP_H

#include "cli/watch_where.h"
#include "record/session/session.h"

/* Whether the watch that an event is of has `signal=STOP`. */
int watch_stops(const struct wm_session *session, const struct wm_event *event);

/* On stderr: where the program was stopped, and how to look at its variables and continue it. */
void watch_stop_complain(const struct wm_event *event, const struct where *where);

#endif
