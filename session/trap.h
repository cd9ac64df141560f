/* SPDX-License-Identifier: MIT */
/*
 * A process's SIGTRAP, claimed for breakpoint probes. (For watches the event object claims it, with what else they take.) The agent's
 * handler serves all sessions at once; but whoever else wants the signal is to be told whose it is.
 */
#ifndef SESSION_TRAP_H
#define SESSION_TRAP_H

struct process;
struct wm_session;

/* Before the agent is asked for breakpoints. Nothing where no spec may have one, or it is claimed already. */
void trap_claim(struct wm_session *session, struct process *process);

/* Breakpoints are gone, or the process is. */
void trap_unclaim(struct wm_session *session, struct process *process);

#endif
