/* SPDX-License-Identifier: MIT */
/*
 * Messages on their way to one session, sent many to a system call: arming ten thousand markers
 * tells as many ids. There is one queue; what is put in for another descriptor sends the rest first.
 * Control thread only.
 */
#ifndef AGENT_CONTROL_QUEUE_H
#define AGENT_CONTROL_QUEUE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Put a message of two parts in (either may be empty; they are copied). Returns 0, or the error of
 * what had to be sent to make room, of the descriptor that queue_fd() told before.
 */
int queue_put(int fd, uint16_t type, uint32_t serial, const void *body, size_t bytes,
	      const void *more, size_t more_bytes);

/*
 * Send what is in it; waits MESSAGE_SEND_MS at most. Returns 0, -ETIMEDOUT if the other side reads
 * nothing, -EPIPE and others if it is gone; the queue is empty then in any case.
 */
int queue_flush(void);

/* The descriptor of what is in the queue; -1 when it is empty. */
int queue_fd(void);

/* The child of a fork: what waits was the parent's to send, to a socket that is none of ours. */
void queue_forked(void);

#endif
