/* SPDX-License-Identifier: MIT */
/*
 * Pending messages to one session, sent together as a bundle (abi/control.h): arming ten
 * thousand markers reports as many ids. A bundle that fits goes as one packet; a larger one goes in
 * a memfd, so that we need not wait for the tool to make room. There is one queue; a message for
 * another descriptor flushes it first. Control thread only.
 */
#ifndef INSIDE_CONTROL_QUEUE_H
#define INSIDE_CONTROL_QUEUE_H

#include <stddef.h>
#include <stdint.h>

/* Where messages go. */
struct queue_peer {
	int fd;
	uint64_t *patience_ns; /* as message_send() has it; must outlive the next flush */
};

/*
 * Put a message of two parts in (either may be empty; they are copied). Returns 0, or the error of
 * what had to be sent to make room, to the descriptor that queue_fd() returned before.
 */
int queue_put(const struct queue_peer *peer, uint16_t type, uint32_t serial, const void *body,
	      size_t bytes, const void *more, size_t more_bytes);

/*
 * Send what is in it, with the patience of its peer. Returns 0, -ETIMEDOUT if there was no room for
 * so long, -EPIPE and others if the other side is gone; the queue is empty then in any case.
 */
int queue_flush(void);

/* The descriptor of what is in the queue; -1 when it is empty. */
int queue_fd(void);

/* In the child of a fork: drop the pending messages; the parent sends them on its own socket. */
void queue_forked(void);

#endif
