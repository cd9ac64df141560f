/* SPDX-License-Identifier: MIT */
/*
 * Events for a callback, without a trace folder: also those that stand so far in pages that are
 * being written.
 *
 * Within a thread the events come in the order of time, though a signal handler's stand in streams
 * of their own: a read hands out what happened before the moment it began, all of that, and merges
 * the streams of each thread. (An event that a handler interrupted while it was being written comes
 * after the handler's.)
 */
#ifndef SESSION_READER_H
#define SESSION_READER_H

#include "session/process.h"

/*
 * Hand out what is ready of one process. Returns 0, what the callback returned when that wasn't 0,
 * or a negative error. A page that makes no sense is dropped from there on.
 */
int reader_pass(struct wm_session *session, struct process *process,
		int (*event)(const struct wm_event *event, void *data), void *data);

/* Whether the store has events that a pass may hand out. Those that the last pass had to leave count again after 100 ms. */
int reader_has_unread(const struct process *process);

/* First what an earlier read left when its callback ended it. Returns as reader_pass(). */
int reader_resume(struct wm_session *session,
		  int (*event)(const struct wm_event *event, void *data), void *data);

/* Forget what was left. */
void reader_drop(struct wm_session *session);

#endif
