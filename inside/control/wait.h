/* SPDX-License-Identifier: MIT */
/*
 * How long a launched program waits for its tool's GO. A busy tool sends WAIT, which extends the
 * wait; the agent does not know what the tool is doing.
 */
#ifndef INSIDE_CONTROL_WAIT_H
#define INSIDE_CONTROL_WAIT_H

/* Extend the wait for GO to `ms` from now. Control thread. */
void wait_renew(unsigned int ms);

/*
 * A launched program's tool, by its socket's path (abi/control.h). On a machine full of other work
 * it may not come to say that it is at work for longer than anyone would wait: so when the time is
 * over it is looked at, and a tool that has something to run, or to which an answer is owed, is
 * waited for on. Before anybody waits.
 */
void wait_tool(const char *path);

/* Whether the control thread is at a request of a tool's. Control thread. */
void wait_serving(int whether);

/*
 * A launched program is to wait for GO; it waits no more, whether GO came or never will. Any
 * thread.
 */
void wait_go_begin(void);
void wait_go_over(void);

/* Wait for that: usual_ms unless renewed, at most most_ms. 0 or -ETIMEDOUT. Any thread. */
int wait_go(unsigned int usual_ms, unsigned int most_ms);

/* In the child of a fork: forget the messages that its parent got. */
void wait_forked(void);

#endif
