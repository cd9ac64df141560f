/* SPDX-License-Identifier: MIT */
/* A session's watch changed into another while it is armed (abi/watch.h, "Changed in place"). */
#ifndef SESSION_WATCH_CHANGE_H
#define SESSION_WATCH_CHANGE_H

#include <stdint.h>
#include <waymark/session.h>

struct watching;

/*
 * Called by the event object when all its events are changed, with the program stopped if that could be: open and shut the gates. 0.
 */
int change_settle(struct watching *watching, uint8_t generation);

/* wm_session_modify(), once what it is given was looked at: `index` is of the session's specs, and a watch. */
int change_watch(struct wm_session *session, size_t index, const char *to,
		 struct wm_kevent_gap *gap);

#endif
