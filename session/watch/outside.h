/* SPDX-License-Identifier: MIT */
/*
 * Watches from outside: a process that has no agent, or whose agent has nothing to do with them. The kernel writes each hit to a
 * ring of ours (event/object.h, EVENT_RINGS); the program gets no signal and nothing is brought into it. What the thread's
 * instruction wrote is reckoned from its registers at that time and its code (arch/told.h), as the agent does it inside.
 *
 * Such a process is one of the session's like all others (process.h), but that it has no connection, and that the store whose
 * events are drained is the tool's own (own_store.h). watching.c arms and counts its watches as inside: the table that
 * the agent would share with us is this process's, and the take of a hit (outside_take.c) fills it in as the agent would.
 *
 * What is not known from outside: what other threads stored since, so memory is never read for a value: what an
 * instruction does not tell is unknown (WATCH_NEW_UNKNOWN), as of vector registers, or follows from the value before. That is the one
 * of the hit before, by time; where hits were lost in between, nobody knows it.
 */
#ifndef SESSION_WATCH_OUTSIDE_H
#define SESSION_WATCH_OUTSIDE_H

#include "abi/watch.h"
#include "code/watch/expr.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct event_object;
struct event_source;
struct process;
struct watched_spec;
struct wm_session;

/* Whether a session wants nothing but watches from outside, so that no agent is needed. */
int outside_is_all(const struct wm_session *session);

/*
 * An agent could not come in, for that error: whether it is all the same to watches from outside, and the session
 * wants nothing else.
 */
int outside_serves(const struct wm_session *session, int error);

/*
 * A process more in the session, `why`: the error that an agent could not come in by; 0: none was wanted. Its watches are armed at
 * wm_session_start(). Launched, it is held at its entry until then, and its pid is returned. Else 0; or an error, with
 * the session's detail.
 */
int outside_attach(struct wm_session *session, pid_t pid, int why);
int outside_launch(struct wm_session *session, const char *path, char *const argv[], int why);

/*
 * Beside a process whose agent has all that the session wants but these: arm them now. `error`: what came of its watches inside; where
 * that is no matter outside, all are meant, else those that are asked for. 0, also where there are none; the error; or another, with
 * the session's detail.
 */
int outside_beside(struct wm_session *session, const struct process *process, int error);

/* It goes on, if it was held. */
void outside_go(struct process *process);
void outside_free(struct process *process); /* also where it is none; one that is held is killed */

/* ---- for watching.c ---- */

/* Whether a spec's watch is armed in the process, from outside or inside. NULL: it is none. */
int outside_wants(const struct process *process, const struct watch_expr *watch);

/* A spec was armed in the process: which way, and why. */
void outside_note(const struct wm_session *session, const struct process *process,
		  struct watched_spec *result);

/*
 * As WATCH asks it of an agent: one register's worth, `text` of its event or "". 0, -WM_E_WATCH_OPTION for what can't be done
 * from outside, with the session's detail; -ENOMEM.
 */
int outside_ask(struct wm_session *session, struct process *process,
		const struct control_watch *about, size_t spec, const char *text);

/* What was asked for is not any more: nothing was armed, or all is over. */
void outside_unask(struct process *process);

/* From outside, who takes hits is this process: the table is its own. 0, -errno; munmap(2) it. */
int outside_table(struct watch_table **table);

/* Whether it is held where its code begins, before it ran any of it. */
int outside_is_held(const struct process *process);

/* Flags of the event object (enum event_flag). */
unsigned int outside_flags(const struct wm_session *session, const struct process *process);

/* It is armed: hits are taken from here on, what stands there was written to the table's rows. */
int outside_armed(struct process *process, struct event_object *object, struct watch_table *table,
		  unsigned int flags);

/* All are quiet: the last hits, and no more. The event object is not used any more. */
void outside_ended(struct wm_session *session, struct process *process);

/* ---- for process.c ---- */

/* Take the hits that have come. How many. */
int outside_pump(struct wm_session *session, struct process *process);

#endif
