/* SPDX-License-Identifier: MIT */
/* Between live.c and live_origin.c alone. */
#ifndef SESSION_TRAIL_LIVE_OWN_H
#define SESSION_TRAIL_LIVE_OWN_H

struct wm_session;

/* Choose an origin, unless there is one already: 0, or what stands in the way of all, with the session's detail. */
int live_choose(struct wm_session *session);

#endif
