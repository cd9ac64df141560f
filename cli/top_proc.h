/* SPDX-License-Identifier: MIT */
/* What /proc has of the threads that `waymark top` counts. */
#ifndef CLI_TOP_PROC_H
#define CLI_TOP_PROC_H

#include "cli/top_threads.h"

#include <sys/types.h>

/* Take the threads of a process in, in the state in which they are now. */
void top_proc_begin(struct top_threads *threads, pid_t pid, uint64_t now_ns);

/* Read the names of threads that came since the last call. */
void top_proc_names(struct top_threads *threads);

/*
 * At an interval's end: threads that had no event are forgotten if they have ended. If
 * `reads_waits`, how long the others waited for a CPU is taken from their schedstat.
 */
void top_proc_settle(struct top_threads *threads, int reads_waits);

/*
 * Where switches can't be recorded: the times of a process's threads since the last call, by their
 * schedstat. Threads that begin and end between two calls are missed.
 */
void top_proc_times(struct top_threads *threads, pid_t pid, uint64_t now_ns);

#endif
