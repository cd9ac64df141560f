/* SPDX-License-Identifier: MIT */
/*
 * Watches from outside, for a process that has no agent, or whose agent takes no part in them. The
 * kernel writes each hit to a ring of the tool (record/perf/object.h, EVENT_RINGS). The program
 * gets no signal, and nothing is loaded into it. The tool computes what an instruction wrote from
 * the thread's registers at the hit and from the program's code (arch/access_decode.h), as the
 * agent does inside.
 *
 * Such a process is one of the session's processes (process.h), but it has no connection, and the
 * store whose events are drained is the tool's own (own_store.h). watching.c arms and counts its
 * watches as it does inside: the tool allocates the table that an agent would share with it, and
 * outside.c fills that in as the agent would.
 *
 * The limit: the tool reads a hit later, so memory may have changed, and is never read for a value.
 * A new value comes from the instruction, or follows from the value before, or is unknown
 * (WATCH_NEW_UNKNOWN), as with vector registers. The value before is that of the previous hit by
 * time. It is unknown after lost hits.
 */
#ifndef RECORD_WATCH_OUTSIDE_H
#define RECORD_WATCH_OUTSIDE_H

#include "abi/watch.h"
#include "target/expression/expr.h"

#include <stddef.h>
#include <sys/types.h>

struct perf_object;
struct event_source;
struct process;
struct watched_spec;
struct wm_session;

/* Whether all specs are watches from outside or kernel events, so that no agent is needed. */
int outside_is_all(const struct wm_session *session);

/*
 * `error` says why no agent could be loaded. Whether watches from outside work regardless, and the
 * session has only watches.
 */
int outside_serves(const struct wm_session *session, int error);

/*
 * Add a process to the session. `why`: the error that kept the agent out; 0: none was wanted.
 * wm_session_start() arms its watches. A launched program is held at its entry until then, and its
 * pid is returned. Otherwise returns 0; or an error, with the session's detail.
 */
int outside_attach(struct wm_session *session, pid_t pid, int why);
int outside_launch(struct wm_session *session, const char *path, char *const argv[], int why);

/*
 * The process has an agent, and arming its watches inside ended with `error`. Where watches from
 * outside work despite that error, add an entry beside it, *beside, for all of the session's
 * watches; with error 0 only for those that the user wants outside. Returns 0; `error` itself, and
 * no entry; or another error, with the session's detail. The caller arms the entry.
 */
int outside_beside(struct wm_session *session, const struct process *process, int error,
		   struct process **beside);

/* Let the program run, if it was held at its entry. */
void outside_go(struct process *process);
void outside_free(struct process *process); /* also without `outside`; kills a held program */

/* ---- for watching.c ---- */

/*
 * Whether this process entry arms that watch: an entry from outside and one with an agent each have
 * their own. NULL, a spec that is no watch: no.
 */
int outside_wants(const struct process *process, const struct watch_expr *watch);

/* A spec was armed in this process: note in *result whether from outside, and why. */
void outside_note(const struct wm_session *session, const struct process *process,
		  struct watched_spec *result);

/*
 * The counterpart of a WATCH request to an agent: add one register's worth, with the `text` of its
 * event or "". Returns 0; -WM_E_WATCH_OPTION, with the session's detail, for what is impossible
 * from outside; or -ENOMEM.
 */
int outside_ask(struct wm_session *session, struct process *process,
		const struct control_watch *about, size_t spec, const char *text);

/* Forget what outside_ask() added: arming failed, or all is over. */
void outside_unask(struct process *process);

/* Allocate the table of rows, unless there is one; munmap(2) it. Returns 0 or -errno. */
int outside_table(struct watch_table **table);

/* Whether it is held at its entry, before it ran any code. */
int outside_is_held(const struct process *process);

/* The flags for the event object (enum event_flag). */
unsigned int outside_flags(const struct wm_session *session, const struct process *process);

/* The object is armed, and the rows have the values from before: take its hits from here on. */
int outside_armed(struct process *process, struct perf_object *object, struct watch_table *table,
		  unsigned int flags);

/* The events are quiet: take the last hits. The event object is not used afterwards. */
void outside_ended(struct wm_session *session, struct process *process);

/* ---- for messages.c ---- */

/*
 * Take the hits that have come; *count says whether there was something. Returns 0; -WM_E_GONE: the
 * process is dead, its watches have to end; -WM_E_EVENT_EXEC: it executed another program, they are
 * lost.
 */
int outside_pump(struct wm_session *session, struct process *process, int *count);

#endif
