/* SPDX-License-Identifier: MIT */
/*
 * The kernel events of a session: samples, switches, faults, tracepoints, counts (kernel_spec.h).
 *
 * To the session's other parts the kernel is one more process, with pid 0 and a store of the tool's
 * own (own_store.h) that has a lane for each CPU instead of each thread. So what drains, writes and
 * reads stores serves for it too. Its state is HUNG_UP from the first, since nothing is asked of
 * it; it is ended when its arming is QUIET.
 */
#ifndef RECORD_KERNEL_KERNEL_EVENTS_H
#define RECORD_KERNEL_KERNEL_EVENTS_H

#include <stdint.h>
#include <sys/types.h>

struct findings;
struct kernel;
struct wm_session;

/*
 * A process that enters while the session runs: open the same events on it, or none, and begin. It
 * may have inherited them. 0, also where there is nothing to do; an error with the session's
 * detail. kernel_part(): the last one did not enter after all.
 */
int kernel_join(struct wm_session *session, pid_t pid);
void kernel_part(struct wm_session *session);

/* Whether it records CPUs now, which keeps a session alive without a process. */
int kernel_is_of_cpus(const struct wm_session *session);

/* See record/session/sources.h. */
void kernel_findings(const struct wm_session *session, int is_over, struct findings *list);

#endif
