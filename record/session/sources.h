/* SPDX-License-Identifier: MIT */
/*
 * A source is one of the kinds of things that a session records: the kernel's events, markers,
 * probes, watches, a trail; or that judges hits: handlers. The session's other parts loop over the
 * sources and name none.
 *
 * Any function may be NULL: then there is nothing to do. Functions that return an error set the
 * session's detail.
 */
#ifndef RECORD_SESSION_SOURCES_H
#define RECORD_SESSION_SOURCES_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct control_module;
struct findings;
struct launch_options;
struct link_message;
struct process;
struct spec;
struct wm_session;
struct wm_session_status;

#define SOURCES 6

struct source_change {
	struct spec *gone; /* not in the list any more */
	size_t gone_count;
	size_t first;		  /* new in the list from here on */
	int is_affected[SOURCES]; /* has a spec that comes or goes */
};

struct source {
	int (*owns)(const struct spec *spec);
	int has_agent; /* its specs need an agent in each process, or a stand-in for it */
	int has_cpus;  /* it can record CPUs, without a process */

	/* ---- the session starts, in this order ---- */
	int (*open)(struct wm_session *session); /* no process was asked yet */
	/*
	 * Ask a process with an agent to arm; the caller waits for the answers of all. Also for a
	 * process that comes later. -WM_E_NO_MARKER is no error yet.
	 */
	int (*ask)(struct wm_session *session, struct process *process);
	/* All is answered; then the process may run. -WM_E_GONE is no error. */
	int (*arm)(struct wm_session *session, struct process *process);
	int (*begin)(struct wm_session *session); /* all processes are armed */
	void (*drop)(struct wm_session *session); /* or the start failed: forget what open() did */

	/* ---- while it runs ---- */
	/* Take what has come. Returns how much, or an error that ends the recording. */
	int (*pump)(struct wm_session *session);
	size_t (*waits)(const struct wm_session *session, struct pollfd *list, size_t room);
	/* How many processes, or CPUs, it records that are not in the session's list. */
	int (*alive)(const struct wm_session *session);
	/* The same, without those that have ended; pid not 0: of that process alone. */
	int (*running)(const struct wm_session *session, pid_t pid);
	void (*status)(const struct wm_session *session, struct wm_session_status *status);
	/* Another folder has begun, or is about to: write again what each one has. */
	void (*folder)(struct wm_session *session);

	/* ---- a process enters ---- */
	/*
	 * Attach or launch without an agent: error 0, if no spec needs one; else why none can be
	 * had. launch() returns the pid. Both return 1 and 0 for "not for me": with error 0 an
	 * agent may enter then.
	 */
	int (*attach)(struct wm_session *session, pid_t pid, int error);
	int (*launch)(struct wm_session *session, const char *path, char *const argv[], int error);
	/*
	 * Start a program that gets an agent in another way, and return its pid; 0: not for me,
	 * only the options were completed; or an error.
	 */
	int (*start)(struct wm_session *session, const char *path, char *const argv[],
		     struct launch_options *launch);
	/* It is there while the session runs; part(): the last one did not come after all. */
	int (*enter)(struct wm_session *session, pid_t pid);
	void (*part)(struct wm_session *session);

	/* ---- of each process ---- */
	/* Whether attend() will let a new process run. */
	int (*welcome)(struct wm_session *session, struct process *process);
	/* In each step, also after a hang-up. An error ends the connection. */
	int (*attend)(struct wm_session *session, struct process *process);
	/* A message of its agent. 1: not for me; else 0 or an error that ends the connection. */
	int (*message)(struct wm_session *session, struct process *process,
		       const struct link_message *message);
	/* It answered a request: process->done. The same errors. */
	int (*answered)(struct wm_session *session, struct process *process, uint16_t request);
	/* Of a process without an agent: what has come. Returns how much. */
	int (*take)(struct wm_session *session, struct process *process);
	/* A module was loaded, or unloaded. 1: attend() will let the loading thread continue. */
	int (*module)(struct wm_session *session, struct process *process,
		      const struct control_module *module, const char *path);
	void (*go)(struct process *process);	 /* It may run. */
	void (*forget)(struct process *process); /* It is being freed. */

	/* ---- its specs change ---- */
	/*
	 * Arm what the list has now, and wait for it. An error leaves the rest undone: then the
	 * list is put back and this is called again, also of sources without an error. NULL: its
	 * specs can't be changed.
	 */
	int (*change)(struct wm_session *session, const struct source_change *change);

	/* ---- the session stops, the last source first ---- */
	int (*leave)(struct wm_session *session); /* before the processes are made quiet */
	int (*quiet)(struct wm_session *session, struct process *process);
	void (*end)(struct wm_session *session);     /* after that */
	void (*results)(struct wm_session *session); /* into the folder that ends */
	/* What the user should know when the session has started, or (`is_over`) has stopped. */
	void (*findings)(const struct wm_session *session, int is_over, struct findings *list);
	void (*release)(struct wm_session *session);
};

extern const struct source kernel_source, handler_source, marker_source, probe_source, watch_source,
	trail_source;
extern const struct source *const sources[SOURCES];

/* Each source that has a function; the second, last one first. */
#define FOR_SOURCES(source, function)                                                              \
	for (const struct source *const *at_ = sources, *source; at_ < sources + SOURCES; at_++)   \
		if (((source) = *at_)->function)
#define FOR_SOURCES_BACK(source, function)                                                         \
	for (const struct source *const *at_ = sources + SOURCES, *source; at_ > sources;)         \
		if (((source) = *--at_)->function)

const struct source *source_of(const struct spec *spec);

/* The sums over all sources. */
size_t sources_wait(const struct wm_session *session, struct pollfd *list, size_t room);
int sources_alive(const struct wm_session *session);
int sources_running(const struct wm_session *session, pid_t pid);

/* Whether any spec of the session needs an agent. */
int sources_need_agent(const struct wm_session *session);

#endif
