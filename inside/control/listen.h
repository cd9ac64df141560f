/* SPDX-License-Identifier: MIT */
/*
 * Meeting tools: the agent's own socket, and connecting to theirs. Control thread only, but where
 * said.
 */
#ifndef INSIDE_CONTROL_LISTEN_H
#define INSIDE_CONTROL_LISTEN_H

/* Which folder the next listen_open() takes; any thread. 0, -ENAMETOOLONG or -EBUSY. */
int listen_set_folder(const char *path);

/*
 * Listen in the folder, which is made and checked, under socketdir_agent_name(). 0 or an error;
 * harmless twice.
 */
int listen_open(void);

/* Stop, and remove the socket. */
void listen_close(void);

/* -1 if it doesn't listen. */
int listen_fd(void);

/*
 * What to poll; -1 while there is nothing to wait for, as after a tool that could not be taken in.
 */
int listen_poll_fd(void);

/* Take in one tool that has come. */
void listen_accept(void);

/* Now and then: try again with the tool that could not be taken in. */
void listen_tick(void);

/* Connect to a tool; the session begins. 0 or an error. */
int listen_connect(const char *path, unsigned int flags);

/* Tell a tool that this program has no agent, and why (CONTROL_UNRECORDED). Any thread. */
void listen_refuse(const char *path, int why);

/* The child of a fork: the socket is the parent's. */
void listen_forked(void);

#endif
