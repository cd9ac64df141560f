/* SPDX-License-Identifier: MIT */
/* What `waymark record` prints while it runs and when it is done. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "record/session/findings.h"
#include "record/session/patience.h"

#include <stdint.h>
#include <waymark/session.h>

struct flight;
struct folder_plan;
struct live;

struct progress {
	int shown;  /* a line is on the terminal */
	int wanted; /* stderr is a terminal */
	uint64_t began_ns, last_ns, last_events;
	double rate; /* events a second, smoothed */
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
 * The closing words on stderr: what was recorded, what was lost, where it is (NULL: the caller says
 * that); with advice on the losses where some were `crowded_out`, for want of room.
 */
void progress_sum_up(const struct progress *progress, const struct wm_session_status *status,
		     const struct live *live, const char *dir, enum wm_policy policy,
		     uint64_t crowded_out);

/*
 * The same for programs, one JSON object, with all findings. progress_json() keeps in memory what
 * the session knows (NULL: nothing); once the session is closed and the exit status is known,
 * progress_json_end() prints it on stdout. `error` is in words, "" for none. Returns 0 or -errno of
 * writing it.
 */
void progress_json(const struct progress *progress, const struct wm_session_status *status,
		   const struct wm_session *session, const char *dir, const struct flight *flight,
		   const struct folder_plan *plan, const struct findings *findings);
int progress_json_end(int exit_status, const char *error);

#endif
