/* SPDX-License-Identifier: MIT */
/* An origin of a live trail, as waymark/trail.h's functions use one. */
#ifndef RECORD_TRAIL_ORIGIN_CALLS_H
#define RECORD_TRAIL_ORIGIN_CALLS_H

#include "record/trail/sink.h"
#include "record/trail/tracing.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <waymark/trail.h>

struct live_origin; /* the origin's own */

/* ORIGIN_ORACLE */
#define TRAIL_ORIGIN_ORACLE ((enum wm_trail_origin)1)

#define TRAIL_FOLLOWS (1u << 31) /* among WM_TRAIL_FLAG_*: WM_FOLLOW_CHILDREN */

struct origin_calls {
	enum wm_trail_origin origin;
	const char *name;
	uint32_t can; /* WM_TRAIL_FLAG_* and TRAIL_FOLLOWS that may be asked of it */
	int can_hold; /* it stops threads while there is no room: WM_POLICY_BLOCK */
	/*
	 * Begin with a program, or with a running process; `only`, if not 0, is the one thread.
	 * Nothing runs before go(). *live is NULL after an error; detail[TRACING_DETAIL_BYTES] says
	 * more about one, or what is not recorded as it was asked for; or is "". The sink is used
	 * from here to close(), in whichever thread calls.
	 */
	int (*launch)(struct live_origin **live, struct trail_sink *sink,
		      const struct tracing_how *how, const char *path, char *const argv[],
		      char *detail);
	int (*attach)(struct live_origin **live, struct trail_sink *sink,
		      const struct tracing_how *how, pid_t pid, pid_t only, char *detail);
	pid_t (*pid)(const struct live_origin *live);
	void (*go)(struct live_origin *live);
	/*
	 * Take what there is, then wait for more so long. 1, 0 when all is over, or a negative
	 * error.
	 */
	int (*pump)(struct live_origin *live, int timeout_ms);
	/*
	 * fetch(): ask for all that was recorded until now; 1: it will be sent. fetched(): how many
	 * requests were answered; in the thread that pumps. discard(): send nothing more, and let
	 * the processes go. fetch() and discard() in any thread, between go() and close().
	 */
	int (*fetch)(struct live_origin *live);
	uint32_t (*fetched)(const struct live_origin *live);
	void (*discard)(struct live_origin *live);
	/*
	 * Let the processes go, take what is left, release. *unfollowed: children that went on
	 * unrecorded.
	 */
	int (*close)(struct live_origin *live, uint64_t *unfollowed);
};

/* A request to one origin. */
struct origin_wanted {
	enum wm_trail_origin origin;
	uint32_t flags;	 /* WM_TRAIL_FLAG_*, TRAIL_FOLLOWS */
	int must_hold;	 /* WM_POLICY_BLOCK */
	int may_do_less; /* the user named no flags: an origin may lack some */
};

/*
 * Choose: for WM_TRAIL_ORIGIN_AUTO the best of those that can do what is wanted. how->machine is
 * the caller's, and how->origin what was chosen. why[bytes] says what is wrong, and of
 * WM_TRAIL_ORIGIN_AUTO why it is not one that is better. 0 or a negative error.
 */
int origin_choose(const struct origin_calls **calls, struct tracing_how *how,
		  const struct origin_wanted *wanted, char *why, size_t bytes);

#endif
