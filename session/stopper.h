/* SPDX-License-Identifier: MIT */
/*
 * A stopper (abi/stopper.h): a process of ours that stops a target's threads and changes its
 * code, when the target's agent asks. It serves one target. It has no terminal, hears no signal,
 * and is no child of ours, so no one has to wait for it.
 *
 * For each stop it forks a process that is the tracer. That process lets the threads go and ends.
 * If it is killed, or takes too long, the kernel lets them go.
 */
#ifndef SESSION_STOPPER_H
#define SESSION_STOPPER_H

#include <sys/types.h>

struct process;

#define STOPPERS_MAX 16u      /* that one process may ask for: an agent may be hostile */
#define STOPPERS_ALL_MAX 512u /* that run at a time */

/*
 * Start a stopper for the process `pid`, whose agent sent the socket `fd`. `pidfd` says whether
 * `pid` is still that process; -1: not known. 0; -EPERM where we may not trace the process, where
 * it has another user than the socket's maker, or a program that gave it rights;
 * -WM_E_PROTOCOL where the process has not made this socket; -EAGAIN where STOPPERS_ALL_MAX run;
 * -WM_E_GONE, -errno. The caller closes `fd`.
 */
int stopper_start(pid_t pid, int pidfd, int fd);

/* A process's agent sent this socket for one. It sees the socket closed where it can have none. */
void stopper_take(struct process *process, int fd);

#endif
