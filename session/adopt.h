/* SPDX-License-Identifier: MIT */
/*
 * A forked child has its parent's jumps and trampolines already. Where this session knows what they
 * are, since it has placed them, nothing is analysed or sent again: the child's agent arms them as they stand.
 */
#ifndef SESSION_ADOPT_H
#define SESSION_ADOPT_H

struct process;
struct wm_session;

/*
 * Ask a new process to adopt, if it has something and that is known. Before it is asked to arm anything.
 * 1: it was asked; 0: all is to be placed in it as in any process; or an error.
 */
int adopt_ask(struct wm_session *session, struct process *process);

/*
 * Declare the events of its parent before a page of the process is read. Its threads pass them from
 * the moment when its agent adopts them, and it may end before it answers. 0, or an error.
 */
int adopt_declare(struct wm_session *session, struct process *process);

/* It has answered. 0, or an error that ends the connection. */
int adopt_answered(struct wm_session *session, struct process *process);

#endif
