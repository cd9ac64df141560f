/* SPDX-License-Identifier: MIT */
/*
 * Probes of a session in its processes: the modules of each, the places in them, and the results.
 *
 * The session reads a process's modules from outside when it arms the process, and again when the
 * agent reports a new one. It analyses each file once (record/probe/probe_plan.h). For each further
 * process with that file it only adds the base address to the plan. It sends new places as PLACE
 * messages and one COMMIT. Then it reads the modules once more, as more may have been loaded
 * meanwhile. The places of a module that comes later are armed while its code may run: calls until
 * then are missing, which is a gap in the trace.
 */
#ifndef RECORD_PROBE_PROBES_H
#define RECORD_PROBE_PROBES_H

#include "abi/control.h"
#include "record/probe/probe_plan.h"

#include <stddef.h>
#include <stdint.h>

struct findings;
struct process;
struct wm_session;

/* A place that was refused in one or more processes. */
struct probe_refusal {
	char *name;	  /* SUBSYSTEM:EVENT */
	char *module;	  /* path; "" if unknown */
	char *detail;	  /* may be "" */
	uint64_t address; /* as linked if the module is known, else in the process */
	int error;
	pid_t pid; /* the first process that refused it */
};

struct probe_refusals {
	struct probe_refusal *all;
	size_t count, room;
	void *index;	 /* of those that agents reported, by name and error */
	int has_markers; /* some are of markers, which probes.wanted does not count */
	/* reported ones that were dropped: past REFUSED_BYTES_MAX of a process */
	uint64_t left_out;
};

/*
 * Another tool had a breakpoint at an event's place; meanwhile hits are missing. CLOCK_MONOTONIC.
 */
struct probe_foreign {
	char *name; /* SUBSYSTEM:EVENT */
	pid_t pid;
	uint32_t id;
	uint64_t offset_ns;	   /* from CLOCK_MONOTONIC to the wall clock at the begin */
	uint64_t begin_ns, end_ns; /* 0: it is still there, or was when the recording ended */
};

/* What a session knows of files and their places; zeroed is empty. */
struct probes {
	struct plan *plans;
	struct probe_refusals refusals;
	struct probe_foreign *foreign;
	size_t foreign_count, foreign_room;
	uint64_t unsafe;  /* armed in FORM_FIRST (abi/detour.h), in all processes */
	uint64_t wanted;  /* places that matched, also refused ones */
	uint64_t unarmed; /* in all processes: sent, but the process or the recording ended first */
	uint64_t late;	  /* modules that came while their program ran */
	uint64_t late_ns; /* the longest time that one ran for before its places were armed */
	uint64_t late_starts; /* processes that ran before anything was armed */
};

/*
 * Ask a process to place what the specs want in those of its modules that were not handled yet.
 * Does nothing if no spec wants places. Returns 0; -WM_E_GONE; an error of process_request();
 * -EACCES or -EPERM, with the session's detail, if the process's memory may not be read.
 */
int probe_arm(struct wm_session *session, struct process *process);

/* The specs have changed: what they want now replaces what is placed. Waits for it. */
int probe_replace(struct wm_session *session);

/* See sources.h. */
void probe_findings(const struct wm_session *session, int is_over, struct findings *list);

/* Take the next number for a set of places. */
uint64_t probe_next_set(struct process *process);

/*
 * Look for modules that a child's parent had no places in at the fork, and place what the specs
 * want. Returns as probe_arm().
 */
int probe_look(struct wm_session *session, struct process *process);

/* The agent refused a marker; `detail` says where its sites are in the source. 0 or -ENOMEM. */
int probe_refused_marker(struct wm_session *session, struct process *process,
			 const struct control_refused *refused, const char *name,
			 const char *detail);

/* The process or the recording has ended: places that are not armed will never be. */
void probe_ended(struct wm_session *session, struct process *process);

void probes_release(struct probes *probes);

#endif
