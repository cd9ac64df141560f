/* SPDX-License-Identifier: MIT */
#ifndef TARGET_PROCESS_THREAD_STATUS_H
#define TARGET_PROCESS_THREAD_STATUS_H

#include <stddef.h>
#include <sys/types.h>

/*
 * A thread's status, for an error that reports that it took too long: "it sleeps in system call 34
 * (do_sys_pause), has run 0.1 ms and waited 2.0 ms for a processor". As much of it as this user may
 * see; "" where the thread has ended.
 */
void thread_status_text(pid_t pid, pid_t tid, char *words, size_t bytes);

#endif
