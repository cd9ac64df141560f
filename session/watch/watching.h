/* SPDX-License-Identifier: MIT */
/*
 * A session's watches in one process: its expressions become places there, the agent is told what to make of their hits
 * (abi/watch.h), and event objects hold the kernel's side (event/object.h), so that all of them are armed or none. What
 * may end before others has an object of its own: watches in a library, of one thread's variables.
 *
 *	watching_arm()	the guards stand, the program waits or runs: find, WATCH, arm
 *	watching_end()	quiet, counted, closed: then the agent is told to let go
 *
 * What was hit is counted by the kernel; what of it the agent took is in the table that it shares with us. The difference
 * was missed, and is told.
 */
#ifndef SESSION_WATCH_WATCHING_H
#define SESSION_WATCH_WATCHING_H

#include "session/watch/watches.h"

#include <stdint.h>

struct process;
struct step_watches;
struct wm_session;

/*
 * Arm all that the session's specs want watched in a process that has answered its COMMIT, but what names a module that it has not
 * loaded: that is armed when it comes (later.h). Stops its threads for a moment.
 * 0, also where nothing is wanted; else nothing is armed, and the session's detail has words: why an expression is no
 * place there (-WM_E_WATCH_*), what the kernel refused (-WM_E_EVENT_*, -WM_E_PERF_*), -WM_E_WATCH_TRAP, -WM_E_GONE, ...
 */
int watching_arm(struct wm_session *session, struct process *process);

/* The agent sent its table; the descriptor stays the caller's. 0 or an error that ends the connection. */
int watching_table(struct process *process, int fd, uint64_t bytes);

/* Of a process, for who steps through it: 1; or 0, where the debug registers are not enough for that. */
int watching_tell(const struct wm_session *session, const struct process *process,
		  struct step_watches *to);

/* The agent says that they can't stay: they are ended. */
void watching_lost(struct wm_session *session, struct process *process, int why);

/* The agent says that nobody serves a watch of ours any more, which had no register of its own. */
void watching_alone(struct process *process, uint32_t number, uint64_t since_ns);

/* Now and then: take over what nobody serves. */
void watching_step(struct wm_session *session, struct process *process);

/* End them, also those of a process that is gone, and add what they came to up in the session's. */
void watching_end(struct wm_session *session, struct process *process);

/* The process is forgotten: close what it has. */
void watching_drop(struct process *process);

#endif
