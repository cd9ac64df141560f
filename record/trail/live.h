/* SPDX-License-Identifier: MIT */
/*
 * The branch trails that a session records. Each process has a tracer (tracer.h), a process of
 * the tool, which also records the children if the session follows them. All write to the session's
 * folder: each process has files of its own, or a flight recorder.
 *
 * A session that records only a trail needs no agent and loads none. In other sessions a process is
 * taken once everything is armed, just before it continues, and let go before anything is disarmed.
 * The tracer leaves the agent's threads alone. Only while there is no tracer may the agent stop
 * the other threads (inside/detour/janitor.h).
 */
#ifndef RECORD_TRAIL_LIVE_H
#define RECORD_TRAIL_LIVE_H

#include "record/trail/kept.h"
#include "record/trail/only.h"
#include "record/trail/origin.h"
#include "record/trail/store.h"
#include "record/trail/trace_sink.h"
#include "record/trail/tracer.h"

#include <stdint.h>
#include <sys/types.h>

struct findings;
struct wm_session;
struct process;

/* When a flight recorder is written to the folder. */
enum live_trigger {
	TRIGGER_NONE,	/* when the recording ends */
	TRIGGER_EXIT,	/* when the program ends in any way */
	TRIGGER_CRASH,	/* when a signal ends it whose default action dumps core */
	TRIGGER_SIGNAL, /* when its handler for a signal begins, or a signal ends it */
};

struct live_process {
	struct live_process *next;
	pid_t pid;
	int is_begun; /* a tracer is taking it; not yet is_taken */
	int is_taken, is_over;
	int goes;		   /* it was let run */
	int is_asked, is_silent;   /* it was asked to let the process go; it has sent all */
	struct live_process *root; /* of a child: the process whose tracer records it; else NULL */
	uint64_t flushed_ns;
	struct wm_session *session;
	struct trail_store *store; /* of a flight recorder; else NULL */
	struct trail_files files;
	struct kept kept; /* of a recorder that is kept at hits */
	struct tracer tracer;
};

struct live_fired {
	int has;
	pid_t pid, tid;
	int signal; /* that it got, or that ended it; 0: none */
};

struct live {
	struct live_process *processes;
	enum live_trigger trigger;
	int signal; /* for TRIGGER_SIGNAL; 0: any */
	struct live_fired fired;
	struct origin_machine machine; /* zeroed: this machine */
	int keeps;		       /* only the blocks before hits of watches are written */
	/* then: the modules that the user chose, and the agent's, which marks the hits */
	struct only_names keeps_only;
	uint64_t kept, unkept; /* hits whose blocks are in the folder; hits past the limit */
	/* the origin, chosen with the first process, and the state of each origin */
	int has_origin;
	enum origin origin;
	struct origin_state origins[ORIGINS];
	uint32_t foreign;    /* processes whose trail ended with a program that is not x86-64 */
	uint64_t privileged; /* let go to execute a program that gains privileges */
	uint64_t unfollowed; /* children with an agent that the origin could not take */
	/* of processes that were forgotten: */
	uint32_t gone;		 /* how many there were */
	uint64_t gone_blocks;	 /* that their flight recorders had */
	uint64_t blocks_written; /* of them, in the folder; and threads */
	uint32_t threads_written;
	int is_unwritten;	/* some of their blocks are not */
	uint64_t overwritten;	/* blocks in rings, before those of a flight recorder */
	struct natives natives; /* of all processes, added when they are stopped */
	/* about the first process with parts not recorded or decoded as asked; "": none */
	char losses[400];
};

/* Whether the session records a trail. */
int live_is_wanted(const struct wm_session *session);

/* The process of that id; NULL: none. */
const struct live_process *live_find(const struct live *live, pid_t pid);

/* Whether an agent is loaded into a program that is recorded from its start. */
int live_launches(const struct wm_session *session);

/*
 * If a watch has the option `trail`, check that there is a flight recorder to keep. Returns 0 or an
 * error, with the session's detail.
 */
int live_keep_ready(struct wm_session *session);

/*
 * The process's agent has reported the function that it calls at a hit whose trail is to be kept.
 */
void live_keep_at(struct wm_session *session, const struct process *process);

/*
 * Let all processes go, and read the rest of their trails. Write the flight recorders, if they were
 * triggered or have no trigger.
 */
int live_stop(struct wm_session *session);

/* See sources.h. */
void trail_findings(const struct wm_session *session, int is_over, struct findings *list);

#endif
