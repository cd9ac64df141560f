/* SPDX-License-Identifier: MIT */
/*
 * When and how each process of a session began to be recorded, and when it ended: for its trace and
 * for wm_session_read().
 */
#ifndef RECORD_SESSION_LIFE_H
#define RECORD_SESSION_LIFE_H

#include <waymark/session.h>

struct process;

/* Its store has come: find out once how and when its recording began. */
void life_begin(const struct wm_session *session, struct process *process);

/*
 * Its store is drained. If the process is dead, note the time and write it to the trace. A process
 * that executed another program is not dead, nor is one that the session let go.
 */
void life_end(struct wm_session *session, struct process *process);

/*
 * With the option process_events, hand out the due records of a process; the second the begins of
 * all processes that did not come by exec. Return 0 or what the callback returned.
 */
int life_read(struct wm_session *session, struct process *process,
	      int (*event)(const struct wm_event *event, void *data), void *data);
int life_read_begins(struct wm_session *session,
		     int (*event)(const struct wm_event *event, void *data), void *data);

/* Whether wm_session_read() would hand out a record of the process, apart from its events. */
int life_is_due(const struct wm_session *session, struct process *process);

/*
 * The entry of the program that this process executed another in, if its store is not drained yet:
 * its events come before the record of the exec. NULL: none, or that record was handed out.
 */
struct process *life_older(const struct process *process);

#endif
