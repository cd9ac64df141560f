/* SPDX-License-Identifier: MIT */
/*
 * The tool's own socket, PID-SERIAL.tool: launched programs and the children of recorded ones find
 * the session there.
 */
#ifndef TARGET_PROCESS_TOOL_SOCKET_H
#define TARGET_PROCESS_TOOL_SOCKET_H

#include "target/process/link.h"
#include "target/process/mount_ns.h"

#include <sys/un.h>

#define SOCKET_PATH_BYTES sizeof(((struct sockaddr_un *)0)->sun_path)

struct listener {
	struct listener *next;
	uid_t uid; /* who may connect, apart from root */
	int fd;
	int gathered; /* the descriptor that the step's wait has; -1: none */
	int is_still; /* by the step's wait: no connection is pending; 0: not known */
	char path[SOCKET_PATH_BYTES]; /* as those processes name it */
	char way[SOCKET_PATH_BYTES];  /* as we do */
	struct mount_ns apart;	      /* what files they see */
	int folder;		      /* of mount_ns_open() or socket_place_open() */
};

/*
 * Open a socket in a folder for processes of user `uid`, who is not us only where we are root.
 * `dir` is how those processes name it, `folder` its descriptor, which is used up. 0, or -errno and
 * *listener NULL.
 */
int tool_socket_listener_new(struct listener **listener, const char *dir, int folder, uid_t uid);

/* Accept a pending connection. 1 with *link made, 0 without one, or a negative error. */
int tool_socket_listener_accept(struct listener *listener, struct link *link);

/* Close and remove it. NULL is allowed. */
void tool_socket_listener_free(struct listener *listener);

#endif
