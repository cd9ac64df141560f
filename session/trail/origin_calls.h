/* SPDX-License-Identifier: MIT */
/* An origin of a live trail, as waymark/trail.h's functions use one. */
#ifndef SESSION_TRAIL_ORIGIN_CALLS_H
#define SESSION_TRAIL_ORIGIN_CALLS_H

#include "session/trail/sink.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <waymark/trail.h>

struct live_origin; /* the origin's own */

struct origin_calls {
	enum wm_trail_origin origin;
	const char *name;
	uint32_t can; /* WM_TRAIL_*: flags that may be asked of it */
	/*
	 * Begin with a program, or with a running process; `only`, if not 0, is the one thread. Nothing runs before
	 * go(). *live is NULL after an error. The sink is used from here to close(), in whichever thread calls.
	 */
	int (*launch)(struct live_origin **live, struct trail_sink *sink, const char *path,
		      char *const argv[]);
	int (*attach)(struct live_origin **live, struct trail_sink *sink, pid_t pid, pid_t only);
	pid_t (*pid)(const struct live_origin *live);
	void (*go)(struct live_origin *live);
	/* Take what there is, then wait for more so long. 1, 0 when all is over, or a negative error. */
	int (*pump)(struct live_origin *live, int timeout_ms);
	/* Let the process go, take what is left, release. */
	int (*close)(struct live_origin *live);
};

extern const struct origin_calls origin_step_calls;

/* The origin that is asked for, the best for WM_TRAIL_AUTO; NULL: it can't be had here, and why[bytes] says what is wrong. */
const struct origin_calls *origin_calls_of(enum wm_trail_origin origin, char *why, size_t bytes);

#endif
