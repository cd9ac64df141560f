/* SPDX-License-Identifier: MIT */
/*
 * Long work while others wait: launched programs that were not let go yet, and the user.
 */
#ifndef RECORD_SESSION_PATIENCE_H
#define RECORD_SESSION_PATIENCE_H

#include <stdint.h>

struct process;
struct wm_session;

/* How far the work is. */
struct session_progress {
	const char *path;     /* of the file that is being planned; NULL: places are being armed */
	uint64_t done, total; /* places; total 0: unknown yet */
};

/*
 * Called with the progress a few times a second. A result other than 0 gives up planning, as after
 * Ctrl-C.
 */
struct session_watcher {
	int (*reported)(const struct session_progress *progress, void *data);
	void *data;
};

/* Of a session. Zeroed: without a watcher. */
struct patience {
	struct session_watcher watcher;
	int has_given_up; /* the watcher gave up */
	uint64_t due_ns;  /* the next time to do something */
};

/*
 * Call this often during long work; a few times a second it does something: it has waiting programs
 * extend their timeouts, calls the watcher, and drains the stores. Returns 0, or -ECANCELED once
 * the watcher has given up.
 */
int patience_beat(struct wm_session *session, const struct session_progress *progress);

/* The same while places are sent or armed. */
void patience_arming(struct wm_session *session);

/* Whether the watcher has given up. */
int patience_is_over(const struct wm_session *session);

#endif
