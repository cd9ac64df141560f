/* SPDX-License-Identifier: MIT */
/*
 * Work that takes long while somebody waits: programs that were launched and are not let go yet, threads
 * that load a module, and whoever looks at the terminal.
 */
#ifndef SESSION_PATIENCE_H
#define SESSION_PATIENCE_H

#include <stddef.h>
#include <stdint.h>

struct process;
struct wm_session;

/* How far it is. */
struct session_progress {
	const char *path;     /* of the file that is planned; NULL: places are being armed */
	uint64_t done, total; /* places; total 0: not known yet */
};

/* Told of it a few times a second. Other than 0: give up what is planned, as after Ctrl-C. */
struct session_watcher {
	int (*told)(const struct session_progress *progress, void *data);
	void *data;
};

/*
 * Something got on: ask whoever waits for us to wait on, tell the watcher, drain what others record
 * meanwhile. Often called, seldom does anything. 0, or -ECANCELED from when the watcher has said so.
 */
int patience_beat(struct wm_session *session, const struct session_progress *progress);

/* Places are sent, or are being armed: likewise. */
void patience_arming(struct wm_session *session);

/* Whether the watcher has had enough. */
int patience_is_over(const struct wm_session *session);

#endif
