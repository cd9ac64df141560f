/* SPDX-License-Identifier: MIT */
/* Sockets of tools and agents that ended without removing them, as killed ones do. */
#ifndef SESSION_STALE_H
#define SESSION_STALE_H

#include <sys/un.h>
#include <time.h>

/*
 * Whether nobody listens at a socket's address: connecting to it is refused. A process that has bound it and does not listen
 * yet looks the same.
 */
int stale_is_refused(const struct sockaddr_un *address);

/*
 * Remove the sockets PID.agent, PID-N.agent and PID-N.tool of a folder (apart_open(), place_open()) that are stale: no process
 * has that pid, or one that began after the socket was made; connecting is refused; and the socket
 * was made more than STALE_AGE_S before `now` (CLOCK_REALTIME). So no process between bind(2) and listen(2) loses its
 * own, in another PID namespace either.
 */
#define STALE_AGE_S 60
void stale_remove(int folder, time_t now);

#endif
