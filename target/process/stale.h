/* SPDX-License-Identifier: MIT */
/* Sockets of tools and agents that ended without removing them, as killed ones do. */
#ifndef TARGET_PROCESS_STALE_H
#define TARGET_PROCESS_STALE_H

#include <sys/un.h>
#include <time.h>

/*
 * Whether the kernel refuses connections to a socket's address: no process listens. A process
 * between bind(2) and listen(2) looks the same.
 */
int stale_is_refused(const struct sockaddr_un *address);

/*
 * Remove the stale sockets PID.agent, PID-N.agent and PID-N.tool of a folder (mount_ns_open(),
 * socket_place_open()). A stale one meets all of these:
 *
 *  - No process has that pid, or the process began after the socket.
 *  - The kernel refuses connections.
 *  - The socket is more than STALE_AGE_S older than `now` (CLOCK_REALTIME). This keeps the socket
 *    of a process between bind(2) and listen(2), also in another PID namespace.
 */
#define STALE_AGE_S 60
void stale_remove(int folder, time_t now);

#endif
