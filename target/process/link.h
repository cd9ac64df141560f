/* SPDX-License-Identifier: MIT */
/*
 * One connection to one agent: packets in and out as abi/control.h says. It knows nothing of what
 * they mean. Nothing here ever waits for the peer for longer than it says.
 */
#ifndef TARGET_PROCESS_LINK_H
#define TARGET_PROCESS_LINK_H

#include "abi/control.h"
#include "target/process/bundle.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct link {
	int fd;	   /* -1: not connected */
	pid_t pid; /* the peer, as the kernel says; 0 if it lives in a namespace we can't see */
	uint32_t serial; /* of the last request */
	unsigned char *buffer;
	struct bundle bundle; /* whose messages link_receive() gives one by one */
};

struct link_message {
	uint16_t type;
	uint32_t serial;
	unsigned char *body; /* a NUL follows its last byte; valid until the next call */
	size_t bytes;
	int fd; /* -1: none came; else the receiver's to close */
};

/* Connect to the agent that listens at `path`. 0, -errno, -WM_E_PEER_UID. */
int link_connect(struct link *link, const char *path);

/*
 * Take over a connection that was accepted; `fd` is closed on failure. 0, -errno, -WM_E_PEER_UID.
 */
int link_adopt(struct link *link, int fd);

/*
 * A pidfd of the process `pid`. If that is the peer, it is the peer's also where another process
 * has the number by now; before Linux 6.5 it is that other's. -ESRCH: the peer was reaped; -1:
 * none.
 */
int link_pidfd(const struct link *link, pid_t pid);

/*
 * Send a request whose body is that of `parts`. Returns its serial number (above 0), -errno,
 * -WM_E_AGENT_SILENT when the peer takes nothing for a second, or -WM_E_GONE.
 */
int link_send(struct link *link, uint16_t type, const struct iovec *parts, int count);

/*
 * Fetch the next message, without waiting; those of a bundle come one by one. Returns 1, 0 without
 * one, -WM_E_GONE when the other side has hung up, -WM_E_PROTOCOL when the message is not
 * Waymark's, -EMFILE when this process had no free descriptor for the one in the message.
 */
int link_receive(struct link *link, struct link_message *message);

/* Close; safe on a zeroed or half-built one with fd -1. */
void link_release(struct link *link);

#endif
