/* SPDX-License-Identifier: MIT */
/*
 * Strict mode: stop every thread of a process, except one.
 */
#ifndef TARGET_PROCESS_STOP_THREADS_H
#define TARGET_PROCESS_STOP_THREADS_H

#include <sys/types.h>

struct stop;

/*
 * Stop every thread of a process, also those that start meanwhile, except keep_tid and those that
 * it starts itself. Nothing is lost by it: signals stay pending, interrupted system calls continue
 * (a timeout of epoll_wait(2) and its like starts again). Takes two seconds at most. Any thread may
 * call it; the stop belongs to the process, which may hold several, and ends when the process does.
 *
 * Returns 0 and the stop, for stop_resume(); or with everything running: -WM_E_STRICT when a thread
 * can't be stopped in time, -WM_E_STOPPED when the process is stopped already, -WM_E_TRACED,
 * -EPERM, -ESRCH, -ENOMEM, -EAGAIN.
 *
 * Meanwhile no thread of the caller's may wait for any child (waitpid(-1)), nor for this process.
 */
int stop_threads(pid_t pid, pid_t keep_tid, struct stop **stop);

/* Let them run on; frees the stop. NULL is allowed. Any thread. */
void stop_resume(struct stop *stop);

#endif
