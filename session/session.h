/* SPDX-License-Identifier: MIT */
/*
 * A session as its own parts see it. session.c is the public API; step.c does what is due; process.c
 * knows one process and what its agent says; the rest are tools of these.
 */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include "session/drain.h"
#include "process/listen.h"
#include "session/names.h"
#include "session/patience.h"
#include "session/probe.h"
#include "session/spec.h"
#include "process/ticks.h"
#include "session/live.h"
#include "session/unrecorded.h"
#include "session/watch/watches.h"
#include "trace/decode.h"
#include "trace/number.h"
#include "trace/writer.h"

#include <stdarg.h>
#include <stdint.h>
#include <waymark/session.h>

struct held;
struct ledger;
struct pollable;
struct pollfd;
struct process;
struct watermark;

#define DETAIL_BYTES 1024

struct wm_session {
	pid_t owner; /* the process that opened it */
	struct wm_session_options options;
	char detail[DETAIL_BYTES];
	struct spec_list specs;
	struct probes probes;
	struct live live;	     /* trails */
	struct watched_list watched; /* once some watch was found */
	struct listener *listeners;  /* one for each user whose processes are recorded */
	/* a name for the agent that LD_PRELOAD can hold; or "" */
	char agent_link[SOCKET_PATH_BYTES];
	struct process *processes;
	uint32_t process_number; /* the last that one was given */
	uint32_t processes_ever;
	pid_t *launched;
	size_t launched_count;
	int running;
	int is_ending; /* it runs no more, and has all be quiet */
	unsigned int
		stops; /* processes that stand still until they have answered: nobody else is seen to */
	int reading;	      /* wm_session_read() calls back */
	unsigned int in_step; /* depth of session_step() */
	struct session_watcher watcher;
	struct unrecorded_list unrecorded;
	int has_given_up; /* the watcher said so */
	uint64_t beat_due_ns;

	struct trace_writer *writer; /* NULL: events go to wm_session_read() */
	char *dir;
	int trace_error; /* the first failure of the trace folder; nothing is written after it */

	struct number_list numbers; /* of the names of events; its processes' schemas share them */
	struct ticks_point began;   /* the base of all times */
	uint64_t started_ns; /* when wm_session_start() had armed all, CLOCK_MONOTONIC; 0: not yet */
	uint64_t tsc_hz;

	struct held *held; /* events that a read left */
	uint32_t told_process; /* the number of the one whose event a read's callback has: a pid may have been several */
	struct watermark *watermark; /* the notify policy's */

	/* of processes that are gone */
	struct drain_counts past;
	uint64_t markers, sites, refused;
	uint64_t drained_ns; /* when the last pass over the stores began, CLOCK_MONOTONIC */
	uint64_t parts_ns;   /* when what open pages hold was last written */
	int parts_due;
	uint64_t idle_ns; /* how long the next step may wait for more to drain */
	struct pollfd *polls;
	int epoll;		   /* all that a step waits on; -1: not there yet */
	int wake;		   /* an eventfd: wm_session_wake() */
	struct pollable *pollable; /* wm_session_fd(): over `epoll`; NULL: nobody asked for it */
	int pollable_epoll;	   /* the epoll that it has; -1: none yet */
	int is_end_told;	   /* a wait has returned that no process is left */
	int is_woken;		   /* the next wait, or the one that runs, is to return */
	struct name_list names;	   /* markers there are, once a spec matched none */
	struct ledger *ledger;	   /* of session_ledger(); NULL: not up to now */
	uint64_t mended_ns;	   /* the last look at it */
};

/*
 * The session's hand on the ledger of claims (claim/ledger.h), made at the first call and released
 * with the session, after all that it could have claimed. NULL: no memory.
 */
struct ledger *session_ledger(struct wm_session *session);

/* Set the detail; returns `error`, to be returned on. */
int session_fail(struct wm_session *session, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Do what is due once: connections, messages, draining. Waits up to timeout_ms for something.
 * Returns 1 if there was something, 0 if not, or a negative error that ends the recording.
 */
int session_step(struct wm_session *session, int timeout_ms);

/*
 * For the answer to a request. An agent that is not stuck gives it sooner, even if all that it may be at
 * before it takes its longest: a look at the modules (4 s), a tick (3 s), and the request itself (7 s).
 */
#define ANSWER_WAIT_MS 15000

/*
 * Step until the process has answered all its requests. 0, the first error that it answered,
 * -WM_E_AGENT_SILENT when no answer came for timeout_ms, or its agent slept for a second;
 * -WM_E_STOPPED when the freezer held it until then; or -WM_E_GONE.
 */
int session_wait(struct wm_session *session, struct process *process, int timeout_ms);

/* The same; but -WM_E_STOPPED soon when others let the process stand still (process_is_halted()). */
int session_wait_moving(struct wm_session *session, struct process *process, int timeout_ms);

/* Let the caller's descriptor tick while there may be news that no descriptor reports. */
void session_pollable_update(struct wm_session *session);

/* Accept connections that wait. How many there were. */
int session_accept(struct wm_session *session);

/*
 * In the middle of something long: hand on what a process has ready, if that can be done without reading
 * its messages.
 */
void session_drain_aside(struct wm_session *session, struct process *process);

/* Drain a process's store for the last time and let go of it. */
int session_finish(struct wm_session *session, struct process *process);

/* Processes that may still send events, or whose last ones are not in the folder yet. */
int session_alive(const struct wm_session *session);

/* The same; 1 if none is left, but one that executes another program. */
int session_awaited(const struct wm_session *session);

/* Processes that are recorded and run: not those that have ended and have yet to be drained. */
int session_running(const struct wm_session *session);

/*
 * Load the agent into a running process unless it listens there, and connect. *uid gets the user
 * that it runs as.
 */
int session_enter(struct wm_session *session, pid_t pid, struct link *link, uid_t *uid);

/* The socket that processes of a user find this session at; opened when it is first needed. */
int session_listen(struct wm_session *session, pid_t pid, uid_t uid, struct listener **listener);

/*
 * Ask a process to arm, to disarm and be quiet, to run (if it was launched and waits). Where the
 * session is strict, arming and disarming stop its threads and wait for the answer.
 */
int session_arm(struct wm_session *session, struct process *process);
int session_disarm(struct wm_session *session, struct process *process);
int session_let_go(struct process *process);

/* Whether nobody can write to this process's store any more. */
int session_is_final(const struct wm_session *session, struct process *process);

/* What of a process's store may be taken by a live reader: DRAIN_ALL once nobody writes to it. */
enum drain_reach session_reach(const struct wm_session *session, struct process *process);

/* Whether wm_session_read() would hand out an event. */
int session_has_unread(const struct wm_session *session);

/* Events that were emitted and that wm_session_status_get() does not count yet: drain_held(). */
uint64_t session_held_events(const struct wm_session *session);

/* Of the events that were lost so far, those that found no room in the buffer. */
uint64_t session_crowded_out(const struct wm_session *session);

/* The agent's name for the session's policy. */
enum store_policy session_store_policy(const struct wm_session *session);

/* The rate of a clock (enum store_clock). */
uint64_t session_hz(const struct wm_session *session, uint32_t clock);

#endif
