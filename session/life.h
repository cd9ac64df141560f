/* SPDX-License-Identifier: MIT */
/*
 * How and when a process of a session came to be recorded, and when it ended: for its trace, and for
 * wm_session_read().
 */
#ifndef SESSION_LIFE_H
#define SESSION_LIFE_H

#include <waymark/session.h>

struct process;

/* Its store came. Find out the way and the time, once. */
void life_begin(const struct wm_session *session, struct process *process);

/*
 * Its store is drained. If the process is dead, note the time, and write it to the trace. A process
 * that executed another program lives, and so does one that the session lets go.
 */
void life_end(struct wm_session *session, struct process *process);

/*
 * With the option process_events: hand out the records that are due of a process; or the begins of
 * all but those that executed a program. Return 0 or what the callback returned.
 */
int life_read(struct wm_session *session, struct process *process,
	      int (*event)(const struct wm_event *event, void *data), void *data);
int life_read_begins(struct wm_session *session,
		     int (*event)(const struct wm_event *event, void *data), void *data);

/* Whether wm_session_read() would hand out a record of the process, if not its events. */
int life_is_due(const struct wm_session *session, struct process *process);

/*
 * The program that this process executed another in, if its store is not drained yet: its events come
 * before the record of the exec. NULL: none, or that record was handed out.
 */
struct process *life_older(const struct process *process);

#endif
