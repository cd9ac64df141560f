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

#include "record/trail/only.h"
#include "record/trail/origin.h"
#include "record/trail/soft/native.h"

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct wm_session;
struct live_process;
struct process;
struct tracer;

/* When a flight recorder is written to the folder. */
enum live_trigger {
	TRIGGER_NONE,	/* when the recording ends */
	TRIGGER_EXIT,	/* when the program ends in any way */
	TRIGGER_CRASH,	/* when a signal ends it whose default action dumps core */
	TRIGGER_SIGNAL, /* when its handler for a signal begins, or a signal ends it */
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
	/* of processes that were forgotten: */
	uint32_t ended;		 /* how many there were */
	uint32_t foreign;	 /* those that executed a program that is not x86-64 */
	uint64_t unfollowed;	 /* children with an agent that the origin could not take */
	uint64_t forgotten;	 /* blocks that their flight recorders had */
	uint64_t blocks_written; /* of them, in the folder; and threads */
	uint32_t threads_written;
	int is_unwritten;	/* some of their blocks are not */
	int error;		/* that broke a trail off, if the tracer itself gave a detail */
	uint64_t overwritten;	/* blocks in rings, before those of a flight recorder */
	struct natives natives; /* of all processes, added when they are stopped */
	/* about the first process with parts not recorded or decoded as asked; "": none */
	char losses[400];
};

/* Counts so far. */
struct live_counts {
	uint64_t instructions, blocks;
	uint64_t words;		    /* that the software engine wrote */
	uint64_t lost;		    /* blocks that flight recorders dropped or lost */
	uint64_t unwritten;	    /* blocks that the folder did not take */
	uint32_t unwritten_threads; /* that are not in the folder */
	uint32_t threads;	    /* ever */
	uint32_t processes;	    /* ever */
	uint64_t unfollowed; /* children that should have been recorded, and continued without */
	/* processes that were let go to execute a program that gains privileges */
	uint64_t privileged;
	/* processes that executed a program that is not x86-64, which ends their trail */
	uint32_t foreign;
};

/* Whether the session records a trail; whether it records nothing else. */
int live_is_wanted(const struct wm_session *session);
int live_is_all(const struct wm_session *session);

/*
 * Without an agent: start a program and return its pid; or note a process, which live_start()
 * takes. Return a negative error with the session's detail.
 */
int live_launch(struct wm_session *session, char *const argv[]);
int live_attach(struct wm_session *session, pid_t pid);

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
 * Choose an origin, unless there is one. Returns 0, also if the session records no trail; or why
 * none can be had, with the session's detail.
 */
int live_ready(struct wm_session *session);

/*
 * Trails of a process can't be recorded any more because of `error`. Sets the session's detail and
 * returns `error`.
 */
int live_broke_off(struct wm_session *session, const struct tracer *tracer, pid_t pid, int error);

/*
 * Whether programs have to be launched by live_launch_with(), so that the agent is loaded into a
 * program that is recorded from its start; else live_join() takes them. live_launch_with() lets the
 * program run and returns its pid, or a negative error.
 */
int live_launches(const struct wm_session *session);
int live_launch_with(struct wm_session *session, const char *path, char *const argv[],
		     char **environment);

/*
 * Before an agent enters a running process: check that the process's threads can be taken later.
 * Returns 0 or an error, with the session's detail.
 */
int live_joins(struct wm_session *session);

/*
 * Take the process's threads now, except the agent's. Returns 0, also if the session records no
 * trail.
 */
int live_join(struct wm_session *session, const struct process *process);

/* Take the processes that were noted, and let all run. */
int live_start(struct wm_session *session);

/*
 * Read what the tracers have sent. Returns how many processes sent something, or the first error.
 */
int live_pump(struct wm_session *session);

/*
 * Let all processes go, and read the rest of their trails. Write the flight recorders, if they were
 * triggered or have no trigger.
 */
int live_stop(struct wm_session *session);

/*
 * Fill the list with the descriptors that become readable when a tracer has sent something, up to
 * `room`. Returns how many there are. Leaves out processes whose data is held back for now.
 */
size_t live_waits(const struct wm_session *session, struct pollfd *list, size_t room);

/* How many processes are still recorded. */
int live_count(const struct wm_session *session);

/* How many of these have not ended: the tracer may lag behind. pid not 0: of that alone. */
int live_running(const struct wm_session *session, pid_t pid);

void live_counts(const struct wm_session *session, struct live_counts *counts);

void live_release(struct wm_session *session);

#endif
