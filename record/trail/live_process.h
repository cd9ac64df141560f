/* SPDX-License-Identifier: MIT */
/*
 * Shared by the parts of a session's trails: live.c has the processes, live_take.c takes them and
 * lets them go.
 */
#ifndef RECORD_TRAIL_LIVE_PROCESS_H
#define RECORD_TRAIL_LIVE_PROCESS_H

#include "record/session/session.h"
#include "record/trail/kept.h"
#include "record/trail/live.h"
#include "record/trail/tracer.h"
#include "record/trail/store.h"
#include "record/trail/trace_sink.h"

struct live_process {
	struct live_process *next;
	pid_t pid;
	int is_begun; /* a tracer is taking it; not yet is_taken */
	int is_taken, is_over;
	int goes;		   /* live_go() has let it run */
	int is_asked, is_silent;   /* it was asked to let the process go; it has sent all */
	struct live_process *root; /* of a child: the process whose tracer records it; else NULL */
	int is_foreign;
	uint64_t flushed_ns;
	struct wm_session *session;
	struct trail_store *store; /* of a flight recorder; else NULL */
	struct trail_files files;
	struct kept kept; /* of a recorder that is kept at hits */
	struct tracer tracer;
};

/* The process that has this tracer. */
struct live_process *live_process_of(void *tracer);

/* Add a process as the first in the list. Returns 0, or an error with the session's detail. */
int live_add(struct wm_session *session, pid_t pid, struct live_process **added);

/* The sink for a process's trail, and how a session's trails are recorded now. */
struct trail_sink *live_sink_of(struct live_process *live);
struct tracing_how live_how_of(const struct wm_session *session);

/*
 * The process's threads are stopped: begin its files; then live_go() lets it run. The first returns
 * 0 or an error of the files.
 */
int live_taken(struct live_process *live);
void live_go(struct live_process *live);

/* From now on keep the recorder at each hit. */
void live_keep_begin(struct live_process *process);

/* Drop the blocks after the last hit. Returns 0 or an error of the folder. */
int live_keep_end(struct live_process *process);

/* Ask all tracers to let go, and read what they still send, so that none waits for another. */
void live_ask_all(struct wm_session *session);

#endif
