/* SPDX-License-Identifier: MIT */
/*
 * The control thread, and its keeper.
 *
 * The control thread has a descriptor table of its own with none of the program's descriptors in
 * it, and all signals blocked. It exists while a session does, or while the program or an injection
 * wants it to listen. It takes no libc lock and allocates nothing from libc.
 *
 * The keeper is a second thread, asleep, that shares the program's descriptors. When all the
 * program's own threads have left by pthread_exit, libc's last thread must call exit(3) and flush
 * what the program has written; the control thread could not, so it ends first and the keeper is
 * the last.
 */
#ifndef INSIDE_CONTROL_CONTROL_THREAD_H
#define INSIDE_CONTROL_CONTROL_THREAD_H

#include "inside/patch/text.h"

#include <stdint.h>

#define CONTROL_WANT_CONNECT 1u /* to the tools whose paths were given */
#define CONTROL_WANT_LISTEN 2u	/* for ever */
#define CONTROL_WANT_GREET                                                                         \
	4u /* listen until the first session has come and gone; 10 s for it to come */

#define CONTROL_PREARM 128u /* beside the SESSION_* flags: patch every site at the start */

/*
 * Start the control thread, or add wants to the running one. `flags` are SESSION_* for
 * the connections it makes. Any thread but in signal handlers. 0 or -errno.
 */
int control_start(uint32_t wants, unsigned int flags);

/* Where to connect to; before control_start(). */
int control_add_tool(const char *path);

/*
 * Wait for GO, or for the control thread's end: for usual_ms, and for up to most_ms while the tool
 * is at work. 0, or -ETIMEDOUT: the program continues without, and its tools are notified.
 */
int control_wait_go(unsigned int usual_ms, unsigned int most_ms);

/* What the loader's hook calls; hands over to the control thread where there is one, and waits. */
void control_loader_changed(int state);

/* Whether it listens: 1, or the negative error why not. */
int control_listens(void);

/* The child of a fork: there is no control thread. */
void control_forked(void);

#endif
