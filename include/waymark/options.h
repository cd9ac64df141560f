/* SPDX-License-Identifier: MIT */
/*
 * What sessions, trails and kernel events have in common. Their headers include this one.
 *
 * A structure with a `size` that the caller sets has a macro for its first value:
 *
 *	struct wm_session_options options = WM_SESSION_OPTIONS_INIT;
 *
 * It sets `size`, a descriptor to -1 (none) and everything else to 0 (the default).
 */
#ifndef WAYMARK_OPTIONS_H
#define WAYMARK_OPTIONS_H

/* The policy when a buffer is full. */
enum wm_policy {
	WM_POLICY_DEFAULT = 0, /* WM_POLICY_DISCARD for a session, WM_POLICY_CYCLIC for a trail */
	WM_POLICY_DISCARD = 1, /* the newest are lost and counted */
	WM_POLICY_CYCLIC = 2,  /* the oldest are lost; the program never waits */
	WM_POLICY_BLOCK = 3,   /* the program waits for room */
	WM_POLICY_NOTIFY = 4,  /* like WM_POLICY_DISCARD; the caller is notified at a watermark */
};

/* Whether the children that a process forks from now on are recorded too. */
enum wm_follow {
	WM_FOLLOW_DEFAULT = 0, /* WM_FOLLOW_CHILDREN for a session, else WM_FOLLOW_NONE */
	WM_FOLLOW_NONE = 1,
	WM_FOLLOW_CHILDREN = 2,
};

/* Not for callers: the first values of structures. C++17 has no designated initialisers. */
#ifdef __cplusplus
#define WM__INIT_WITH(type, ...)                                                                   \
	([] {                                                                                      \
		struct type wm__new {                                                              \
		};                                                                                 \
		wm__new.size = sizeof(wm__new);                                                    \
		__VA_ARGS__;                                                                       \
		return wm__new;                                                                    \
	}())
#define WM__INIT(type) WM__INIT_WITH(type, (void)0)
#define WM__INIT_NOTIFY(type) WM__INIT_WITH(type, wm__new.notify_fd = -1)
#else
#define WM__INIT(type)                                                                             \
	{                                                                                          \
		.size = sizeof(struct type)                                                        \
	}
#define WM__INIT_NOTIFY(type)                                                                      \
	{                                                                                          \
		.size = sizeof(struct type), .notify_fd = -1                                       \
	}
#endif

#endif
