/* SPDX-License-Identifier: MIT */
/*
 * The tool's own socket, PID-SERIAL.tool: launched programs and the children of recorded ones find
 * the session there.
 */
#ifndef SESSION_LISTEN_H
#define SESSION_LISTEN_H

#include "session/link.h"

#include <sys/un.h>

#define SOCKET_PATH_BYTES sizeof(((struct sockaddr_un *)0)->sun_path)

struct listener {
	int fd; /* -1: closed */
	char path[SOCKET_PATH_BYTES];
};

/* Open the socket. 0, -errno, -WM_E_SOCKET_DIR (path then names the folder). */
int listener_open(struct listener *listener);

/* Take a connection that waits. 1 with *link made, 0 when there is none, or a negative error. */
int listener_accept(struct listener *listener, struct link *link);

/* Close and remove it; safe when fd is -1. */
void listener_release(struct listener *listener);

#endif
