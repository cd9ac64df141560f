/* SPDX-License-Identifier: MIT */
/* What `waymark record` prints while it runs and when it is done. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "record/probe/probes.h"

#include "record/session/patience.h"
#include "record/watch/watches.h"

#include <stdint.h>
#include <waymark/session.h>

struct flight;
struct probes;
struct unrecorded_list;

struct progress {
	int shown;  /* a line is on the terminal */
	int wanted; /* stderr is a terminal */
	uint64_t began_ns, last_ns, last_events;
	double rate; /* events a second, smoothed */
	/*
	 * for the closing words of a trail: how it was recorded, origins_way(); and what came of it
	 */
	const char *trail_way;
	const struct live *live;
};

void progress_begin(struct progress *progress);

/*
 * Renew the line, a few times a second at most; nothing where stderr is no terminal. `held`: events
 * that the buffers hold, which `status` does not count yet.
 */
void progress_show(struct progress *progress, const struct wm_session_status *status,
		   uint64_t held);

/*
 * The same while places are planned and armed: "planning 12,000 of 43,671 functions in libjvm.so".
 */
void progress_plan(struct progress *progress, const struct session_progress *plan);

/* Take the line away. */
void progress_clear(struct progress *progress);

uint64_t progress_elapsed_ns(const struct progress *progress);

/*
 * The closing words on stderr: what was recorded, what was lost, where it is; with advice on the
 * losses where some were `crowded_out`, for want of room.
 */
void progress_sum_up(const struct progress *progress, const struct wm_session_status *status,
		     const char *dir, enum wm_policy policy, uint64_t crowded_out);

/*
 * The same for programs, one JSON object on stdout, with what became of the places that were to be
 * probed. `error` is in words, "" for none. Returns 0 or -errno of writing it.
 */
int progress_sum_up_json(const struct progress *progress, const struct wm_session_status *status,
			 const char *dir, int exit_status, const char *error,
			 const struct probes *probes, const struct unrecorded_list *unrecorded,
			 const struct watched_list *watched, const struct flight *flight);

#endif
