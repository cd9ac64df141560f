/* SPDX-License-Identifier: MIT */
/* The messages of a process's agent (abi/control.h), and what each of them changes. */
#ifndef RECORD_SESSION_MESSAGES_H
#define RECORD_SESSION_MESSAGES_H

struct process;
struct wm_session;

/*
 * Read and handle the agent's messages; of a process that is watched from outside, its hits.
 * Returns how many there were. If the agent hangs up, the state changes, without an error. An
 * invalid message ends the connection.
 */
int messages_pump(struct wm_session *session, struct process *process);

#endif
