/* SPDX-License-Identifier: MIT */
/*
 * Watches that are armed after the session's start: in processes that are forked or executed, and
 * in libraries that are loaded. A child in its fork and a thread in the loader wait until then.
 *
 * A session arms one process after another, never one within the steps of another. So its other
 * parts only note what is to be done, and later_attend() does it.
 */
#ifndef RECORD_WATCH_LATER_H
#define RECORD_WATCH_LATER_H

#include <stdint.h>

struct process;
struct wm_session;

/* A new process is ready. Returns 1 if later_attend() will let it go, 0 if the caller has to. */
int later_welcome(struct wm_session *session, struct process *process);

/*
 * Its agent reports a new module. Returns 1 if later_attend() will send SEEN, 0 if not, or -ENOMEM.
 */
int later_module_came(struct wm_session *session, struct process *process, uint64_t base);

/*
 * Do what was noted, unless a pass, this function, or messages_pump() of the process is running.
 * Returns 0, or an error that ends the connection.
 */
int later_attend(struct wm_session *session, struct process *process);

#endif
