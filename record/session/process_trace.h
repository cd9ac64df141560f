/* SPDX-License-Identifier: MIT */
/* Describes a process in the session's trace: itself, its events, its modules. */
#ifndef RECORD_SESSION_PROCESS_TRACE_H
#define RECORD_SESSION_PROCESS_TRACE_H

#include "abi/control.h"

struct process;
struct wm_session;

/*
 * Once the process's store is there: add the process, and what it has declared so far, to the
 * trace, unless it is there already. Returns 0 or an error of the trace.
 */
int process_trace(struct wm_session *session, struct process *process);

/* The process has declared an event: add it to the trace. Returns 0 or an error of the trace. */
int process_trace_event(struct wm_session *session, const struct process *process,
			const struct control_event *event, const char *text);

#endif
