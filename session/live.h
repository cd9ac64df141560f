/* SPDX-License-Identifier: MIT */
/*
 * The trails that a session records: one process of ours for each process (stepper.h), all into the session's folder. Those that
 * it makes are recorded by the same, where the session follows children; each has its files, or its flight recorder.
 *
 * Where nothing but a trail is asked for, no agent is needed, and none is brought in. Where there is more, a process is
 * taken once all is armed, just before it goes on, and let go of before anything is disarmed: the agent's
 * threads are left alone, and it may stop the others (agent/detour/janitor.h) only where no stepper does.
 */
#ifndef SESSION_LIVE_H
#define SESSION_LIVE_H

#include "branch/native.h"
#include "branch/only.h"
#include "branch/origin.h"

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct wm_session;
struct live_process;
struct process;
struct stepper;

/* What makes a flight recorder write down what it has. */
enum live_trigger {
	TRIGGER_NONE,	/* the recording's end */
	TRIGGER_EXIT,	/* the program ends, in any way */
	TRIGGER_CRASH,	/* a signal ends it whose action is to dump core */
	TRIGGER_SIGNAL, /* a handler of its own begins, or a signal ends it */
	TRIGGER_CALL,	/* live_fire() */
};

struct live_fired {
	int has;
	pid_t pid, tid;
	int signal; /* that it got, or was ended by; 0: none */
};

struct live {
	struct live_process *processes;
	int is_elsewhere; /* another session records the trails of what this one starts */
	enum live_trigger trigger;
	int signal; /* TRIGGER_SIGNAL: this one; 0: any */
	struct live_fired fired;
	struct origin_machine machine; /* zeroed: this one */
	int keeps; /* what led to a watch's hits, and nothing else, is written down */
	struct only_names keeps_only; /* then: what was chosen, and the agent, which says when */
	uint64_t kept,
		unkept; /* hits so far: what led there is in the folder; or was one too many */
	/* which origin was taken, once there is a process, and what was to be had */
	int has_origin;
	enum origin origin;
	struct origin_state origins[ORIGINS];
	/* of processes that are forgotten: */
	uint32_t ended;	     /* how many, */
	uint32_t foreign;    /* those of them that executed a program that is not x86-64, */
	uint64_t unfollowed; /* children that their agent came with, which the origin could not take */
	uint64_t forgotten; /* and blocks that their flight recorders had */
	int error; /* that broke a trail off, where the tracer itself has said more about it */
	uint64_t overwritten;	/* blocks in rings, before what a flight recorder had */
	struct natives natives; /* of all, once they were stopped */
	char losses[400]; /* the first that could not be recorded or decoded, or not as was asked for; "": none */
};

/* What came of it so far. */
struct live_counts {
	uint64_t instructions, blocks;
	uint64_t words;	       /* of the software engine, which told them */
	uint64_t lost;	       /* blocks that a flight recorder had no room for any more */
	uint32_t threads;      /* ever */
	uint32_t processes;    /* ever */
	uint64_t unfollowed;   /* children that went on unrecorded, though they should have been */
	uint32_t followed_max; /* the origin follows so many processes at a time */
	uint64_t privileged; /* processes that were let go to execute a program that gains rights */
	uint64_t untrapped;  /* processes that ignored SIGTRAP, and no longer do */
	int untrapped_error; /* why, of one */
	uint32_t foreign; /* of them, those that executed a program that is not x86-64, where their trail ends */
};

/* Whether the session asks for a trail; and for nothing else. */
int live_is_wanted(const struct wm_session *session);
int live_is_all(const struct wm_session *session);

/*
 * Without an agent: start a program, its pid is returned; or note a process, which is taken at live_start(). Negative
 * errors, with the session's detail.
 */
int live_launch(struct wm_session *session, char *const argv[]);
int live_attach(struct wm_session *session, pid_t pid);

/* Whether some watch keeps the trail, and has one to keep. 0 or an error, with the session's detail. */
int live_keep_ready(struct wm_session *session);

/* Its agent has said where it comes by at a hit whose trail is to be kept. */
void live_keep_at(struct wm_session *session, const struct process *process);

/* Choose an origin, unless there is one already. 0 also where no trail is asked for; or what stands in the way, with the session's detail. */
int live_ready(struct wm_session *session);

/*
 * A program could not be entered, and has run nothing of its own: whether it is to be tried by single steps, since nobody named an
 * origin. The session's detail says more about the error.
 */
int live_falls_back(struct wm_session *session, int error);

/* What a process sent can't be taken any more, for that error: returned, with the session's detail. */
int live_broke_off(struct wm_session *session, const struct stepper *stepper, pid_t pid, int error);

/*
 * Whether programs are to be started by live_launch_with(), so that the agent comes in as part of a program that is recorded
 * from its start on; else they are taken by live_join(). Its pid, which runs, is returned.
 */
int live_launches(const struct wm_session *session);
int live_launch_with(struct wm_session *session, const char *path, char *const argv[],
		     char **environment);

/* Before an agent comes into a running process: whether its threads can be taken then. 0 or an error, with the session's detail. */
int live_joins(struct wm_session *session);

/* Take the process's threads now, but for the agent's. 0 where no trail is asked for. */
int live_join(struct wm_session *session, const struct process *process);

/* Take those that were noted, let all go. */
int live_start(struct wm_session *session);

/* Take what has come. How many processes sent, or the first error of the folder. */
int live_pump(struct wm_session *session);

/*
 * What was awaited has come, in this thread of that process, at that time (CLOCK_MONOTONIC; 0: now): what
 * comes after it is not taken, of any thread.
 */
void live_fire(struct wm_session *session, const struct live_fired *fired, uint64_t at_ns);

/*
 * Let all processes go, and take what is left. A flight recorder is written down now, if it has fired or is to be
 * written at the end.
 */
int live_stop(struct wm_session *session);

/*
 * What tells that a process has sent something: into the list, as far as there is room. How many; not those of which nothing
 * is wanted yet.
 */
size_t live_waits(const struct wm_session *session, struct pollfd *list, size_t room);

/* How many processes are still stepped through. */
int live_count(const struct wm_session *session);

/* How many of them have not ended: the tracer may be behind. */
int live_running(const struct wm_session *session);

/* Whether the process is one that is stepped through. */
int live_has(const struct wm_session *session, pid_t pid);

void live_counts(const struct wm_session *session, struct live_counts *counts);

void live_release(struct wm_session *session);

#endif
