/* SPDX-License-Identifier: MIT */
/*
 * Probes of a session in its processes: which modules each has, what is placed in them, what came of it.
 *
 * A process's modules are read from outside when it is armed, and again when its agent tells of one that
 * came. Each file is analysed once in a session (session/plan.h); for each further process that runs it
 * the plan is only written out for its place in memory. All that is new goes out as PLACE messages and
 * one COMMIT; then the modules are read once more, since some may have come meanwhile.
 */
#ifndef SESSION_PROBE_H
#define SESSION_PROBE_H

#include "abi/control.h"
#include "session/plan.h"

#include <stddef.h>
#include <stdint.h>

struct process;
struct wm_session;

/* A place that was refused, in whichever processes. */
struct probe_refusal {
	char *name;	  /* SUBSYSTEM:EVENT */
	char *module;	  /* path; "" if unknown */
	char *detail;	  /* may be "" */
	uint64_t address; /* as linked where the module is known, else in the process */
	int error;
	pid_t pid; /* the process where it was refused first */
};

struct probe_refusals {
	struct probe_refusal *all;
	size_t count, room;
	void *index;	   /* those that agents reported, by name and error */
	int has_markers;   /* some are of markers, which `wanted` of struct probes does not count */
	uint64_t left_out; /* of those, dropped: past REFUSED_BYTES_MAX of a process */
};

/* A breakpoint of another tool was at an event's place: hits are missing meanwhile. CLOCK_MONOTONIC. */
struct probe_held {
	char *name; /* SUBSYSTEM:EVENT */
	pid_t pid;
	uint32_t id;
	uint64_t offset_ns; /* of the wall clock, when it began */
	uint64_t begin_ns,
		end_ns; /* end_ns 0: it is still there, or was when the recording ended */
};

/* A process that may not stop its own threads, which most forms of jumps need. */
struct probe_unstoppable {
	pid_t pid;
	char comm[16];
	int is_dumpable;
	uint64_t places; /* refused there for that */
};

/* What a session knows of files; zeroed is empty. */
struct probes {
	struct plan *plans;
	struct probe_refusals refusals;
	struct probe_held *held;
	size_t held_count, held_room;
	struct probe_unstoppable *unstoppable;
	size_t unstoppable_count, unstoppable_room;
	uint64_t unsafe; /* armed in FORM_FIRST (abi/detour.h), in all processes together */
	uint64_t wanted; /* places that matched, those refused included */
	uint64_t unarmed; /* in whichever processes: sent, and the process or the recording ended first */
	uint64_t late;	      /* modules whose code ran before their places were armed */
	uint64_t late_starts; /* processes that ran before anything was armed */
};

/* The modules of a process that were seen to; zeroed is empty. */
struct probed {
	struct probed_module {
		uint64_t start, base;
		uint64_t device, inode;
		uint64_t set; /* with which its places were sent */
		int is_done;
	} * modules;
	size_t count, room;
	/* told by MODULE, SEEN not yet answered: a thread may wait for it */
	struct probed_loading {
		uint64_t base;
		int is_wanted; /* some spec wants places there */
	} * loading;
	size_t loading_count, loading_room;
	uint64_t pending;     /* places sent and not yet armed or refused */
	uint64_t answered;    /* of these, those that the agent has prepared or refused */
	unsigned int commits; /* not yet answered */
	uint64_t planning;    /* base of the module whose file is being planned for it; 0: none */
	uint64_t steps;	      /* rises as its modules get on: what is planned, what is answered */
	uint64_t set;	      /* the last number that was sent with COMMIT (abi/control.h) */
	int adopts;	      /* it was asked for what its parent has, and has not answered */
	int has_inherited;    /* adopt_declare() has declared its parent's events */
	int is_on;	      /* COMMIT was sent and no QUIET since */
	int refusal;	      /* why COMMIT armed nothing, as no thread could be stopped; 0 */
	int look_again;	      /* once COMMIT is answered */
};

/*
 * Ask a process to place what the session's specs want in the modules that it has and that were not
 * seen to. Nothing is done where no spec wants places. 0; -WM_E_GONE; what process_request() returns;
 * -EACCES or -EPERM, with words in the session's detail, where the process's memory may not be read.
 */
int probe_arm(struct wm_session *session, struct process *process);

/* Sets of one process have its number in front; no two processes of a session have the same. */
#define PROBE_SET_NUMBER(set) ((uint32_t)((set) >> 32))

/* A number for what is placed next. */
uint64_t probe_next_set(struct process *process);

/* Look for modules that have come, also while nothing told of them, and place what is wanted. As probe_arm(). */
int probe_look(struct wm_session *session, struct process *process);

/* PLACE was answered. */
void probe_placed(struct wm_session *session, struct process *process);

/* COMMIT was answered. 0 or an error that ends the connection. */
int probe_committed(struct wm_session *session, struct process *process);

/* Its agent told of a module that came or went. Likewise. */
int probe_module(struct wm_session *session, struct process *process,
		 const struct control_module *module, const char *path);

/* SEEN was answered: the thread that loads the module that was told first goes on. */
void probe_seen(struct process *process);

/* The process went on without GO, or a thread of it without SEEN. */
void probe_late(struct wm_session *session, struct process *process,
		const struct control_late *late);

/* The agent reports that a breakpoint of another tool is at an event's place, or has gone. 0 or -ENOMEM. */
int probe_held(struct wm_session *session, const struct process *process,
	       const struct control_held *held);

/* Its agent refused a place. 0 or -ENOMEM. */
int probe_refused(struct wm_session *session, struct process *process,
		  const struct control_refused *refused, const char *name);

/* Likewise, a marker's sites: `detail` says where they are in the source. */
int probe_refused_marker(struct wm_session *session, struct process *process,
			 const struct control_refused *refused, const char *name,
			 const char *detail);

/* A place was refused. 0 or -ENOMEM. */
int probe_refusal_add(struct wm_session *session, const struct probe_refusal *refusal);
void probe_refusals_release(struct probe_refusals *list);

/* The process is quiet: nothing is placed there any more. */
void probe_quiet(struct process *process);

/* The process is over, or the recording: what was not armed never will be. */
void probe_ended(struct wm_session *session, struct process *process);

void probed_release(struct probed *probed);
void probes_release(struct probes *probes);

#endif
