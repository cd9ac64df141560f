/* SPDX-License-Identifier: MIT */
/*
 * A stopper (abi/stopper.h) is a process of the tool that stops a target's threads and changes its
 * code when the target's agent asks. It serves one target. It has no terminal, blocks all signals,
 * and is not our child, so nothing has to wait for it.
 *
 * For each request it forks a process that is the tracer. That process lets the threads go and
 * ends. If it is killed, or takes too long, the kernel lets them go.
 */
#ifndef RECORD_SESSION_STOPPER_H
#define RECORD_SESSION_STOPPER_H

#include <sys/types.h>

struct process;

#define STOPPERS_MAX 16u      /* for one process: an agent may be hostile */
#define STOPPERS_ALL_MAX 512u /* at the same time */

/*
 * Start a stopper for the process `pid`, whose agent sent the socket `fd`. `pidfd` shows whether
 * `pid` is still that process; -1: unknown. The caller closes `fd`. Returns 0; -EPERM if we may not
 * trace the process, or it now has another user than when it made the socket, or it executed a
 * program that gained privileges; -WM_E_PROTOCOL if it did not make this socket; -EAGAIN if
 * STOPPERS_ALL_MAX run; -WM_E_GONE; -errno.
 */
int stopper_start(pid_t pid, int pidfd, int fd);

/*
 * A process's agent sent this socket for a stopper. If it can't have one, it sees the socket
 * closed.
 */
void stopper_take(struct process *process, int fd);

#endif
