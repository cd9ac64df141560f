/* SPDX-License-Identifier: MIT */
/*
 * One recorded process: its connection, its store, the events it has declared. If it executes
 * another program, that is a new process here, with another agent and store under the same pid.
 *
 * enum process_state says how far its agent's connection is:
 *
 *	-> NEW			it connected, or we connected to it
 *	NEW -> READY		HELLO came
 *	READY -> OPENING	OPEN was sent
 *	READY, OPENING -> OPENED
 *				its store came
 *	NEW -> OPENED		it is watched from outside: it has no agent, and the store is ours
 *	NEW ... OPENED -> HUNG_UP
 *				its connection closed: it died, executed another program, or left us
 *	HUNG_UP -> OVER		its store, if it had one, was drained for the last time
 *
 * enum process_arming says what its agent was asked to record. It also counts after a hang-up:
 *
 *	any -> ARMED		the session starts, or welcomes it: ARM or COMMIT is sent
 *	ARMED -> DISARMED	QUIET is sent
 *	DISARMED -> QUIET	QUIET was answered: no thread writes to the store any more
 *	any -> QUIET		LEAVE was answered, or its watches from outside have ended
 */
#ifndef RECORD_SESSION_PROCESS_H
#define RECORD_SESSION_PROCESS_H

#include "record/probe/probed.h"
#include "record/session/events.h"
#include "record/session/session.h"
#include "record/watch/watch_state.h"

#include <sys/types.h>

/* In this order: before PROCESS_HUNG_UP, its connection has not ended. */
enum process_state {
	PROCESS_NEW,
	PROCESS_READY,
	PROCESS_OPENING,
	PROCESS_OPENED,
	PROCESS_HUNG_UP,
	PROCESS_OVER,
};

enum process_arming { PROCESS_UNARMED, PROCESS_ARMED, PROCESS_DISARMED, PROCESS_QUIET };

#define REQUESTS_MAX 8

struct outside;
struct process_queued;
struct watching;

struct process_module {
	struct control_module about;
	uint64_t ns; /* when it came or went, by the wall clock of events */
	char *path;
};

struct process {
	struct process *next;
	enum process_state state;
	enum process_arming arming;
	struct link link;
	const struct listener *listener; /* where its children can connect; NULL: nowhere */
	pid_t pid;
	int pidfd;	   /* -1: the kernel gave none; -ESRCH: it was reaped before */
	uint64_t since_ns; /* when it connected; in HUNG_UP: was checked last; CLOCK_MONOTONIC */
	uint32_t number;   /* unique in the session */
	struct control_hello hello;
	struct control_inherited inherited; /* zeroed: nothing */
	uint64_t hello_ns;		    /* when HELLO came, CLOCK_MONOTONIC */
	struct process_life {
		char way;	     /* enum life_kind of trace/process_records.h */
		uint64_t start_time; /* field 22 of /proc/PID/stat; 0: it had ended */
		int is_begin_read, is_end_read;
		uint64_t begin_ns, end_ns; /* wall clock; 0: unknown */
	} life;
	uint64_t hung_up_ns; /* when it entered HUNG_UP, CLOCK_MONOTONIC */
	char *exe;
	uint8_t build_id[20];
	uint8_t build_id_bytes;

	struct {
		uint32_t serial; /* 0: none */
		uint16_t type;
	} requests[REQUESTS_MAX];
	struct process_queued *queue, **queue_end; /* requests that can't be sent yet */
	struct process_silence {
		uint64_t since_ns; /* when the agent's thread began to sleep; 0: not looked at */
		uint64_t ran_ns;   /* of that thread, at that time */
	} silence;
	int is_dropped;		  /* the error of a message of it; the session reads no more */
	int is_silent;		  /* the session gave it up, as its agent's thread slept */
	uint64_t answered_ns;	  /* when the last answer came, CLOCK_MONOTONIC */
	struct control_done done; /* the last answer */
	int error;		  /* the first error that was answered, until a caller resets it */

	/* how it came, and of one that waits to run: */
	int invited;	  /* attached to or launched by us; it did not connect unasked */
	int let_go;	  /* GO was sent */
	int runs;	  /* launched: GO was answered, or it continued without */
	int named;	  /* LIST was sent */
	int has_handlers; /* so were the session's */
	/* of its end: */
	unsigned int ended_in; /* the round of the session's end that made it quiet */
	int dead;	       /* its pidfd says so */
	int unmapped;	       /* in HUNG_UP: it does not map its store any more */
	int was_seen_off;      /* in HUNG_UP: its present program was looked at */
	/* of the step that is running: */
	int is_pumped, is_drained; /* messages_pump() or session_drain() is on the call stack */
	int unread;		   /* the last pump left messages unread */
	/* found by the step's wait: it is alive, it has sent nothing; 0: unknown */
	int is_alive, is_still;
	int gathered[2]; /* the link and the pidfd that are in the epoll descriptor; -1: none */

	struct drain *drain;
	uint64_t unreadable;	/* that the last wm_session_read() could not hand out yet */
	uint64_t unreadable_ns; /* when that was, CLOCK_MONOTONIC */
	uint64_t store_inode;
	struct trace_schema *schema;
	struct event_list *events;
	int parent_trace; /* the number in the trace of the parent whose events it inherits */
	struct process_module *modules; /* loaded and unloaded, in that order; also in the trace */
	size_t module_count;
	size_t text_bytes;    /* of the texts of these and of its events */
	size_t refused_bytes; /* of the names in its refusals */
	struct probed probed;
	struct watching *watching; /* see watch/watching.h; NULL: none */
	struct watch_state watch;
	struct outside *outside; /* see watch/outside.h; NULL: it has an agent */
	uint64_t kept_at;	 /* see abi/watch.h */
	unsigned int stoppers;	 /* how many were started for it: stopper.h */
	int is_kernel;		 /* it is the kernel: kernel_events.h */
	int trace;		 /* its number in the trace; -1: not in it yet */
};

/* Whether its agent accepts requests. */
static inline int process_is_usable(const struct process *process)
{
	return process->state >= PROCESS_READY && process->state <= PROCESS_OPENED;
}

/* Whether it does, and was asked to record. */
static inline int process_is_armed(const struct process *process)
{
	return process_is_usable(process) && process->arming == PROCESS_ARMED && !process->outside;
}

/*
 * Make a process of a connection, as the first in the session's list. Takes *link over in any case.
 */
int process_new(struct process **process, struct wm_session *session, struct link *link, pid_t pid);

/* Free a process that has no watches, or none any more: session_free_process() ends these. */
void process_free(struct process *process);

/*
 * Send a request with a body of `count` parts, and note that an answer is due. If too many answers
 * are due, queue a copy; process_answered() sends it. Returns 0 or a negative error.
 */
int process_request(struct process *process, uint16_t type, const struct iovec *parts, int count);

/* How many answers are due, including those of queued requests. */
unsigned int process_pending(const struct process *process);

/* Note that a module was loaded or unloaded. Returns 0, -ENOMEM or an error of the trace. */
int process_module(struct wm_session *session, struct process *process,
		   const struct control_module *module, const char *path);

/*
 * Note the modules that no agent reports, as those loaded before it began to, since a store or a
 * caller may be in any of them. Skips those that are known. 0 or an error.
 */
int process_modules_note(struct wm_session *session, struct process *process,
			 const struct loaded_list *list);

/* A request was answered: send queued ones. Returns the request's type; 0: no answer was due. */
uint16_t process_answered(struct process *process, uint32_t serial);

/* Drop queued requests of the types CONTROL_PLACE and CONTROL_COMMIT; forget all requests. */
void process_drop_places(struct process *process);
void process_forget_requests(struct process *process);

/* Close the connection; `err`, unless it is -WM_E_GONE, becomes the process's error. */
void process_hang_up(struct process *process, int err);

/* The session's process of that id whose connection has not ended; NULL: none. */
struct process *process_find(const struct wm_session *session, pid_t pid);

int process_is_dead(const struct process *process);

/*
 * Whether its pid has not been reused: then facts read before under that pid are of this process.
 */
int process_has_number(const struct process *process);

/*
 * Whether its agent has just gone while the process lives: it may be executing another program,
 * whose agent will connect.
 */
int process_executes(const struct process *process);

/*
 * Whether another party has it stopped now: a signal, or a tracer. The agent's own tracer, which
 * stops it to change code (inside/detour/janitor.h), does not count; it is a child of the process.
 * The stop may be short.
 */
int process_is_halted(const struct process *process);

/*
 * Whether the process still maps its store. Then its threads may write there although its agent is
 * gone, as when a seccomp filter or a signal ended the agent's thread. Also 0 if that is unknown.
 */
int process_has_store(const struct process *process);

/* Our pid, if its forked children may write to its store; else 0 (abi/page.h). */
uint32_t process_tool_pid(const struct wm_session *session, const struct process *process);

/* Whether forked children of it may still write to its store. */
int process_is_shared(struct process *process);

/*
 * Once the process's store is there: add the process, and what it has declared so far, to the
 * trace, unless it is there already. Returns 0 or an error of the trace.
 */
int process_trace(struct wm_session *session, struct process *process);

/*
 * The process has declared an event: keep it, also in the trace once the process is there. Returns
 * 0, an error of event_list_add() or of the trace.
 */
int process_declare(struct wm_session *session, struct process *process, uint32_t id,
		    const uint8_t types[16], const char *text);

/*
 * Read and handle the agent's messages; of a process that is watched from outside, its hits.
 * Returns how many there were. If the agent hangs up, the state changes, without an error. An
 * invalid message ends the connection.
 */
int messages_pump(struct wm_session *session, struct process *process);

#endif
