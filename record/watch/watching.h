/* SPDX-License-Identifier: MIT */
/*
 * A session's watches in one process. Each expression becomes a place in memory, the agent gets a
 * request for how to handle its hits (abi/watch.h), and event objects open the kernel's events
 * (record/perf/object.h), so that either all of them are armed or none. Watches that may end before
 * the others have an object of their own: those in a library, and those of one thread's variables.
 *
 *	watching_arm()	libc's guards are armed, the program waits or runs: find, send WATCH, arm
 *	watching_end()	quiet, count, close; then have the agent drop them
 *
 * The kernel counts the hits. The agent counts those that it took in the table that it shares with
 * us. The difference was missed, and is reported.
 */
#ifndef RECORD_WATCH_WATCHING_H
#define RECORD_WATCH_WATCHING_H

#include "record/watch/watches.h"

#include <stdint.h>

struct process;
struct wm_session;

/*
 * Arm all watches of the session's specs in a process that has answered its COMMIT. A watch in a
 * module that is not loaded yet is armed when that is (later.h). Stops the threads for a moment.
 * Returns 0, also if there is nothing to arm. On an error nothing is armed, and the session's
 * detail says more: why an expression is no place there (-WM_E_WATCH_*), what the kernel refused
 * (-WM_E_EVENT_*, -WM_E_PERF_*), -WM_E_WATCH_TRAP, -WM_E_GONE, ...
 */
int watching_arm(struct wm_session *session, struct process *process);

/*
 * The agent sent its table. The caller still owns `fd`. Returns 0 or an error that ends the
 * connection.
 */
int watching_table(struct process *process, int fd, uint64_t bytes);

/* The agent reports that watches can't stay in the process: end them. */
void watching_lost(struct wm_session *session, struct process *process, int why);

/*
 * A module was unloaded: end the watches in it. Those that a pass is arming there are ended at the
 * end of the pass. Returns 0 or -ENOMEM.
 */
int watching_module_gone(struct wm_session *session, struct process *process, uint64_t base);

/*
 * End all watches of a process, also if it is gone, and add their counts to the session's results;
 * of a process that was dropped, with the error.
 */
void watching_end(struct wm_session *session, struct process *process);

/* The process is being freed: close and free its watches, without counting. */
void watching_drop(struct process *process);

#endif
