/* SPDX-License-Identifier: MIT */
/*
 * `waymark record --on`: what makes a flight recorder (trail/last=SIZE/) write its contents, and
 * what the command prints then.
 */
#ifndef CLI_FLIGHT_H
#define CLI_FLIGHT_H

#include "read/rows/render.h"
#include "record/trail/live.h"

#include <waymark/session.h>

struct flight {
	enum live_trigger trigger; /* TRIGGER_NONE: --on was not given */
	int signal;		   /* TRIGGER_SIGNAL: 0 is any */
	const char *text;	   /* as given */
	struct live_fired fired;   /* the session's, once flight_end() was called */
};

/*
 * Read what --on is followed by: crash, exit, signal or signal:NAME. 0, or CLI_USAGE, all being
 * said.
 */
int flight_parse(struct flight *flight, const char *text);

/* Whether these specs go with it: 0, or CLI_USAGE. */
int flight_check(const struct flight *flight, const char *const *specs, size_t count);

/* Before the session is started: what it is to wait for. */
void flight_set(const struct flight *flight, struct wm_session *session);

/* The session has stopped: keep what came of it. Whether there is a trace. */
int flight_end(struct flight *flight, const struct wm_session *session);

/* On stderr: what came, and the way to it, out of the trace in `dir`; or that it did not come. */
void flight_tell(const struct flight *flight, const char *dir);

/* As a table of one row, or of none where --on was not given. */
void flight_rows(struct rows *rows, const struct flight *flight);

#endif
