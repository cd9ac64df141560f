/* SPDX-License-Identifier: MIT */
/* Replace a watch of a session while it is armed (abi/watch.h, "Changed in place"). */
#ifndef RECORD_WATCH_CHANGE_WATCH_H
#define RECORD_WATCH_CHANGE_WATCH_H

#include <stdint.h>
#include <waymark/session.h>

struct watching;

/*
 * The event object calls this when it has changed all its events, with the program stopped where
 * possible. Opens the gates of the new pieces, and has the old ones take only hits that are
 * pending; or the reverse when the change is undone. Returns 0.
 */
int change_settle(struct watching *watching, uint8_t generation);

/*
 * The work of wm_session_modify(), after it checked its arguments. `index` is the number of a watch
 * in the session's specs.
 */
int change_watch(struct wm_session *session, size_t index, const char *to,
		 struct wm_kevent_gap *gap);

#endif
