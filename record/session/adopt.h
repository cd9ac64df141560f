/* SPDX-License-Identifier: MIT */
/*
 * A forked child has its parent's jumps and trampolines already. If this session placed them, it
 * knows them: then it analyses and sends nothing again, and the child's agent arms them where they
 * are.
 */
#ifndef RECORD_SESSION_ADOPT_H
#define RECORD_SESSION_ADOPT_H

struct process;
struct wm_session;

/*
 * Ask a new process to adopt its parent's places, if it has any and this session knows them. Call
 * this before asking it to arm anything. Returns 1 if it was asked, 0 if everything has to be
 * placed as in any process, or an error.
 */
int adopt_ask(struct wm_session *session, struct process *process);

/*
 * Declare the events of its parent before a page of the process is read. Its threads pass them from
 * the moment when its agent adopts them, and it may end before it answers. 0, or an error.
 */
int adopt_declare(struct wm_session *session, struct process *process);

/* The process has answered ADOPT. Returns 0, or an error that ends the connection. */
int adopt_answered(struct wm_session *session, struct process *process);

#endif
