/* SPDX-License-Identifier: MIT */
/*
 * Hits on their way: the kernel has counted them, and their threads, on a busy machine, have yet to be given a
 * processor before they come to the handler.
 */
#ifndef SESSION_WATCH_UNDERWAY_H
#define SESSION_WATCH_UNDERWAY_H

#include "session/process.h"

/*
 * Waits until is_told() says that all were told, or none can be on its way any more: each thread sleeps, stands
 * still, or has run since. Some 20 ms where that can't be told, two seconds at most.
 */
void underway_wait(const struct process *process, int (*is_told)(void *data), void *data);

#endif
