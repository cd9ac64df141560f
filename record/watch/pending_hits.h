/* SPDX-License-Identifier: MIT */
/*
 * In-flight hits: the kernel has counted them, but on a busy machine their threads have not been
 * scheduled to run the signal handler yet.
 */
#ifndef RECORD_WATCH_PENDING_HITS_H
#define RECORD_WATCH_PENDING_HITS_H

#include "record/session/process.h"

/*
 * Wait until is_told() says that the handler has reported all hits, or until no hit can be in
 * flight: each thread sleeps, is stopped, or has run since. At least 20 ms if is_told() says no,
 * and at most two seconds. Ends early if the process is dead.
 */
void pending_hits_wait(const struct process *process, int (*is_told)(void *data), void *data);

#endif
