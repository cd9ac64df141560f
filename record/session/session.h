/* SPDX-License-Identifier: MIT */
/*
 * The internals of a session, for its parts. The public API is in session_open.c, session_start.c,
 * session_stop.c, join.c and others. event_loop.c does the periodic work,
 * messages.c handles the messages of one process's agent.
 */
#ifndef RECORD_SESSION_SESSION_H
#define RECORD_SESSION_SESSION_H

#include "base/detail.h"
#include "base/socketdir.h"
#include "record/drain/drain.h"
#include "target/process/ticks.h"
#include "target/process/tool_socket.h"
#include "trace/number.h"

#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <waymark/session.h>

struct handlers;
struct held;
struct kernel;
struct ledger;
struct live;
struct name_list;
struct patience;
struct pollable;
struct pollfd;
struct probes;
struct process;
struct spec_list;
struct target;
struct trace_writer;
struct triggers;
struct unrecorded_list;
struct watched_list;
struct watermark;

#define DETAIL_BYTES 1024

struct wm_session {
	pid_t owner; /* the process that opened it */
	struct wm_session_options options;
	char detail[DETAIL_BYTES];
	/* the state of its parts, in the same allocation: see session_open.c */
	struct spec_list *specs;
	struct probes *probes;
	struct live *live;	      /* of branch trails */
	struct watched_list *watched; /* filled when a watch was found in a process */
	struct unrecorded_list *unrecorded;
	struct handlers *handlers; /* from outside */
	struct name_list *names;   /* existing markers, once a spec matched none */
	struct patience *patience;
	struct triggers *triggers;
	struct kernel *kernel; /* of its kernel events; NULL: none */

	struct listener *listeners; /* one for each user whose processes are recorded */
	/* a symbolic link to the agent, for LD_PRELOAD; "" */
	char agent_link[SOCKET_PATH_BYTES];
	struct process *processes;
	uint32_t process_number; /* the last number given to a process */
	uint32_t processes_ever;
	pid_t *launched;
	size_t launched_count;
	int running;
	int is_ending; /* it does not run any more, and is making its processes quiet */
	/* processes that it has stopped until they answer: meanwhile it welcomes no others */
	unsigned int stops;
	int reading;	      /* wm_session_read() is calling back */
	unsigned int in_step; /* nested calls of session_step(), and of waits */

	struct trace_writer *writer; /* NULL: events go to wm_session_read() */
	char *dir;		     /* the present folder; NULL: none */
	int is_kept;	    /* the newest events are kept in memory, and there is no folder */
	int is_written;	    /* the last folder is closed */
	uint64_t folder_ns; /* when it began, if it is not the first: CLOCK_MONOTONIC */
	int trace_error;    /* the first failure to write the trace; nothing is written after it */
	int explained;	    /* an error that the detail has words about; 0: none */

	struct number_list numbers; /* of event names; its processes' schemas share them */
	struct ticks_point began;   /* the base of all times */
	/* when wm_session_start() had armed everything, CLOCK_MONOTONIC; 0: not yet */
	uint64_t started_ns;
	uint64_t tsc_hz;

	struct held *held; /* events that a read did not hand out */
	/*
	 * the number of the process whose event a read's callback has: a pid may have had several
	 */
	uint32_t told_process;
	struct watermark *watermark; /* of the notify policy */

	/* of processes that were drained for the last time */
	struct drain_counts past;
	uint64_t markers, sites, refused;
	uint64_t drained_ns; /* when the last pass over the stores began, CLOCK_MONOTONIC */
	uint64_t parts_ns;   /* when the content of open pages was last written */
	int parts_due;
	uint64_t idle_ns; /* how long the next step may wait before it drains */
	struct pollfd *polls;
	int epoll;		   /* the descriptors that a step waits for; -1: none yet */
	int wake;		   /* an eventfd for wm_session_wake() */
	struct pollable *pollable; /* for wm_session_fd(), around `epoll`; NULL: not asked for */
	int pollable_epoll;	   /* the value of `epoll` that is in it; -1: none */
	int is_end_told;	   /* a wait has reported that no process is left */
	int is_woken;		   /* the next wait, or the present one, has to return */
	struct ledger *ledger;	   /* of session_ledger(); NULL: none yet */
	uint64_t mended_ns;	   /* when it was last checked */
};

/*
 * The session's access to the ledger of claims (target/claim/ledger.h). Made at the first call, and
 * freed with the session, after everything that may have claims. NULL: no memory.
 */
struct ledger *session_ledger(struct wm_session *session);

/* Add a spec to the list, if this machine can record it. Returns 0 or an error, with the detail. */
int session_spec_add(struct wm_session *session, const char *spec);

/*
 * Check at a session's end: if an armed watch had no hit, repeat its trial, as a live migration may
 * have moved us to a machine whose debug registers don't fire. Returns 0; -WM_E_BREAKPOINT_DEAD; or
 * -WM_E_BREAKPOINT_UNTRIED, if the zero can't be confirmed. Keeps the error in
 * watched_list.unproven.
 */
int session_use_zero(struct wm_session *session, struct detail detail);

/* A time of CLOCK_MONOTONIC by the wall clock, with the same base as events. */
static inline uint64_t session_wall_ns(const struct wm_session *session, uint64_t monotonic_ns)
{
	return session->began.realtime_ns + (monotonic_ns - session->began.monotonic_ns);
}

/* Set the detail. Returns `error`, for the caller to return. */
int session_fail(struct wm_session *session, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Do once what is due: connections, messages, draining. Waits up to timeout_ms for something.
 * Returns 1 if there was something, 0 if not, or a negative error that ends the recording.
 */
int session_step(struct wm_session *session, int timeout_ms);

/*
 * How long to wait for an answer. An agent that is not stuck is faster, even if the jobs before the
 * request take their longest: a look at the modules (4 s), a tick (3 s), and the request itself (7
 * s).
 */
#define ANSWER_WAIT_MS 15000

/*
 * Step until the process has answered all its requests. Returns 0; the first error that it
 * answered; -WM_E_AGENT_SILENT if no answer came for timeout_ms, or its agent slept for a second;
 * or -WM_E_GONE.
 */
int session_wait(struct wm_session *session, struct process *process, int timeout_ms);

/*
 * The same; but -WM_E_STOPPED soon if something else has stopped the process (process_is_halted()).
 */
int session_wait_moving(struct wm_session *session, struct process *process, int timeout_ms);

/* Take what has come to the sources. Returns how many had something. */
int session_pump_sources(struct wm_session *session);

/*
 * Wait until the process has armed what it was asked to. Returns 0, also if it has ended or no
 * marker matches yet; or an error, with the detail.
 */
int session_wait_armed(struct wm_session *session, struct process *process);

/*
 * Wait until a process or a listener has something to read, for wait_ns at most. Sets their
 * is_still and is_alive, so that the step needs no system call for those that have nothing: with
 * many processes those calls took most of a step. wm_session_wake() and a signal end the wait and
 * set is_woken.
 */
void session_poll(struct wm_session *session, uint64_t wait_ns);

/*
 * If a spec from that number on, without a glob, has nothing to record in any process, fail: but
 * not for the error that is `allowed`. Else 0.
 */
int session_fail_unmatched(struct wm_session *session, size_t first, int allowed);

/* Have the caller's descriptor tick while there may be news that no descriptor reports. */
void session_pollable_update(struct wm_session *session);

/* Accept waiting connections. Returns how many there were. */
int session_accept(struct wm_session *session);

/*
 * Drain all stores once, and set how long the next step may wait: session->idle_ns, of
 * SESSION_IDLE_NS_MAX at most. Returns whether there was something.
 */
#define SESSION_IDLE_NS_MAX 10000000u
/* between two reads of pages that are not full: after a kill at most 100 ms are missing */
#define SESSION_PARTS_NS 90000000u
int drain_session_all(struct wm_session *session);

/*
 * Called during long work: drain a process's full pages, if that is possible without reading its
 * messages.
 */
void drain_session_aside(struct wm_session *session, struct process *process);

/* Whether it has what a recording of more than one folder can't have: -EINVAL with the detail. */
int session_folders_refused(struct wm_session *session);

/* How long ago the oldest events may have been that are kept in memory; 0: none are. */
uint64_t session_kept_ns(const struct wm_session *session);

/* Write what the last folder ends with, and close it. Returns session->trace_error. */
int session_folder_close(struct wm_session *session);

/* Drain a process's store for the last time, and free the drain. */
int drain_session_finish(struct wm_session *session, struct process *process);

/* Free a process, which is no more in the session's list, with its watches. */
void session_free_process(struct process *process);

/* How many processes may still send events, or have last events that are not in the folder yet. */
int session_alive(const struct wm_session *session);

/* The same; but 1 if the only process left is executing another program. */
int session_awaited(const struct wm_session *session);

/*
 * How many recorded processes are running; not those that have ended and are still to be drained.
 */
int session_running(const struct wm_session *session);

/*
 * The file that is `named`, NULL: Waymark's own, and the folder, as the process names them. The
 * folder is made where it is not there; so is, for a process in another mount namespace that has
 * no such file, a copy of the file in it. 0, or an error with words about it.
 */
int session_attach_place(const struct target *target, const char *named, char agent[PATH_MAX],
			 char dir[SOCKETDIR_BYTES], struct detail detail);

/*
 * Have a process arm; disarm and be quiet; run, if it was launched and waits. In a strict session
 * arming and disarming stop its threads and wait for the answer.
 */
int session_arm(struct wm_session *session, struct process *process);
int session_disarm(struct wm_session *session, struct process *process);
int session_let_go(struct process *process);

/* Nothing is armed there any more, but by its agent. Returns the first error. */
int session_quiet_sources(struct wm_session *session, struct process *process);

/* Whether no process can write to this store any more. */
int session_is_final(const struct wm_session *session, struct process *process);

/* What a live reader may take of the store: DRAIN_ALL if no thread writes to it any more. */
enum drain_reach session_reach(const struct wm_session *session, struct process *process);

/*
 * Whether a read may find events of the process to hand out. Events that the last one could not
 * hand out do not count for 100 ms.
 */
int reader_has_unread(const struct process *process);

/* Drop what a read left because its callback ended it. */
void reader_drop(struct wm_session *session);

/* Whether wm_session_read() would hand out an event. */
int session_has_unread(const struct wm_session *session);

/* Emitted events that wm_session_status_get() does not count yet: see drain_held(). */
uint64_t session_held_events(const struct wm_session *session);

/* The counts of all stores, also of those that are drained. */
void session_count(const struct wm_session *session, struct drain_counts *counts);

/* The store's constant for the session's policy. */
enum store_policy session_store_policy(const struct wm_session *session);

/* The rate of a clock (enum store_clock) in Hz. */
uint64_t session_hz(const struct wm_session *session, uint32_t clock);

#endif
