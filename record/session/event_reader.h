/* SPDX-License-Identifier: MIT */
/*
 * Hand events to a callback, without a trace folder; also events in pages that are still open.
 *
 * The events of a thread come in the order of time. A signal handler's events are in a stream of
 * their own: a read hands out all events from before it began, and merges the streams of each
 * thread. (An event that a handler interrupted in its writing comes after the handler's events.)
 */
#ifndef RECORD_SESSION_EVENT_READER_H
#define RECORD_SESSION_EVENT_READER_H

#include "record/session/process.h"

/*
 * Hand out the available events of one process. Returns 0, the callback's result if that was not 0,
 * or a negative error. Of an invalid page the rest is dropped.
 */
int reader_pass(struct wm_session *session, struct process *process,
		int (*event)(const struct wm_event *event, void *data), void *data);

/*
 * Whether a pass may find events to hand out. Events that the last pass could not hand out do not
 * count for 100 ms.
 */
int reader_has_unread(const struct process *process);

/*
 * First hand out what an earlier read left because its callback ended it. Returns as reader_pass().
 */
int reader_resume(struct wm_session *session,
		  int (*event)(const struct wm_event *event, void *data), void *data);

/* Drop what was left. */
void reader_drop(struct wm_session *session);

#endif
