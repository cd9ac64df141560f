/* SPDX-License-Identifier: MIT */
/*
 * One recorded process: its connection, its store, the events it has named. A program that executes
 * another is a new process here: another agent, another store, under the same pid.
 *
 *	NEW -> READY	it said HELLO
 *	READY -> OPENED	its store came
 *	any -> HUNG_UP	its connection closed: it died, executed another program, or let go of us
 *	any -> OVER	its store is drained for good
 */
#ifndef SESSION_PROCESS_H
#define SESSION_PROCESS_H

#include "session/events.h"
#include "session/probe.h"
#include "session/session.h"
#include "session/watch/later.h"

#include <sys/types.h>

enum process_state { PROCESS_NEW, PROCESS_READY, PROCESS_OPENED, PROCESS_HUNG_UP, PROCESS_OVER };

#define REQUESTS_MAX 8

struct outside;
struct process_queued;
struct watching;

struct process_module {
	struct control_module about;
	char *path;
};

struct process {
	struct process *next;
	enum process_state state;
	struct link link;
	const struct listener *listener; /* where its children find the session; NULL: nowhere */
	pid_t pid;
	int pidfd;	   /* -1: the kernel gave none; -ESRCH: it was reaped before */
	uint64_t since_ns; /* when it came into its state, CLOCK_MONOTONIC */
	uint32_t number;   /* the session's own for it */
	struct control_hello hello;
	struct control_inherited inherited; /* zeroed: nothing */
	uint64_t hello_ns;		    /* when it came */
	struct process_life {
		char way;	     /* enum life_kind of trace/life.h */
		uint64_t start_time; /* field 22 of /proc/PID/stat; 0: it had ended */
		int is_begin_read, is_end_read;
		uint64_t begin_ns, end_ns; /* the wall clock; 0: not known */
	} life;
	uint64_t hung_up_ns; /* when it came into that state, CLOCK_MONOTONIC */
	char *exe;
	uint8_t build_id[20];
	uint8_t build_id_bytes;

	struct {
		uint32_t serial; /* 0: none */
		uint16_t type;
	} requests[REQUESTS_MAX];
	struct process_queued *queue, **queue_end; /* requests that wait for their turn */
	struct process_silence {
		uint64_t since_ns; /* the agent's thread sleeps; 0: not looked at */
		uint64_t ran_ns;   /* of that thread, by then */
		int is_frozen;	   /* the freezer held it at the last look since then */
	} silence;
	int is_silent;		   /* it was given up for that */
	uint64_t answered_ns;	   /* when the last answer came, CLOCK_MONOTONIC */
	int error;		   /* the first that was answered since process_forgive() */
	int was_quiet;		   /* QUIET was answered, and nothing armed since */
	int was_seen_off;	   /* what it runs since it hung up was looked at */
	unsigned int ended_in;	   /* the round of the session's end that has it be quiet */
	int leaving;		   /* LEAVE was sent */
	int armed;		   /* ARM was sent and no QUIET since */
	int named;		   /* LIST was sent */
	int let_go;		   /* GO was sent */
	int runs;		   /* launched: GO was answered, or it has gone on without */
	int is_pumped, is_drained; /* one of these goes on, somewhere up the stack */
	int dead;		   /* its pidfd says so */
	int is_alive,
		is_still; /* by the step's wait: it runs, and has sent nothing; 0: not known */
	int gathered[2];  /* the link and the pidfd that the step's wait has; -1: none */
	int unread;	  /* the last pump left messages behind */
	int unmapped;	  /* it hung up and has its store no more */
	int welcomed;	  /* it was asked to open its store */
	int invited;	  /* attached or launched by us, not come by itself */
	struct control_done done; /* the last */

	struct drain *drain;
	uint64_t unreadable;	/* events that the last wm_session_read() could not hand out yet */
	uint64_t unreadable_ns; /* when that was, CLOCK_MONOTONIC */
	uint64_t store_inode;
	struct trace_schema *schema;
	struct event_list *events;
	int parent_trace; /* the number in the trace of the parent that it inherits from */
	struct process_module
		*modules; /* that came, and went, in that order; the trace has them too */
	size_t module_count;
	size_t text_bytes;    /* that it has sent for those and its events */
	size_t refused_bytes; /* of names that it has refused, which we keep */
	struct probed probed;
	struct watching *watching; /* watch/watching.h's; NULL: nothing is watched */
	struct watch_state watch;
	struct outside *outside; /* watch/outside.h's: it has no agent; else NULL */
	uint64_t kept_at;	 /* abi/watch.h */
	unsigned int stoppers;	 /* that were started for it: stopper.h */
	int trace;		 /* its number in the trace; -1: not there yet */
};

/* Whether its agent takes requests. */
static inline int process_is_usable(const struct process *process)
{
	return process->state == PROCESS_READY || process->state == PROCESS_OPENED;
}

/* Take a connection over and put the process in the session's list; *link is used up. */
int process_new(struct process **process, struct wm_session *session, struct link *link, pid_t pid);
void process_free(struct process *process);

/*
 * Send a request with a body of `count` parts; its answer is counted. Where too many wait for theirs it
 * is copied and sent in its turn, by process_answered(). 0 or a negative error.
 */
int process_request(struct process *process, uint16_t type, const struct iovec *parts, int count);

/* Requests that aren't answered yet, those not yet sent included. */
unsigned int process_pending(const struct process *process);

/* A module that came, or is gone. 0 or what the trace says. */
int process_module(struct wm_session *session, struct process *process,
		   const struct control_module *module, const char *path);

/* A request was answered: send what waits. Its type; 0 for one that nobody waits for. */
uint16_t process_answered(struct process *process, uint32_t serial);

/* Drop what was not sent of these types (CONTROL_PLACE and CONTROL_COMMIT); drop all. */
void process_drop_places(struct process *process);
void process_forget_requests(struct process *process);

/*
 * Read and obey what the agent sent. Returns the number of messages; hanging up is a change of
 * state and no error. What is wrong with a message ends the connection.
 */
int process_pump(struct wm_session *session, struct process *process);

/* Close the connection; `err`, unless it is -WM_E_GONE, becomes the process's error. */
void process_hang_up(struct process *process, int err);

/* Give the process, and what it has named so far, to the trace. */
int process_trace(struct wm_session *session, struct process *process);

int process_is_dead(const struct process *process);

/* Whether its number is still its own: facts read by the number before are then this process's. */
int process_has_number(const struct process *process);

/*
 * Whether its agent has gone a moment ago, and the process lives: it executes another program, whose
 * agent is to come.
 */
int process_executes(const struct process *process);

/*
 * Whether others let it stand still: a signal, or a tracer that is not its own agent's, which stops it
 * to change code (agent/detour/janitor.h) and is its child. Of the moment: a tracer may let it go soon.
 */
int process_is_halted(const struct process *process);

/*
 * Whether its store is still mapped in the process, so that threads may write to it though nobody
 * speaks for them: a filter or a signal of the program's own has ended the agent's thread. 0 also where
 * that can't be told.
 */
int process_has_store(const struct process *process);

/* Our pid, if children that it forks may write to its store; else 0 (abi/page.h). */
uint32_t process_tool_pid(const struct wm_session *session, const struct process *process);

/* Whether children that it has forked may write to its store still. */
int process_is_shared(struct process *process);

#endif
