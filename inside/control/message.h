/* SPDX-License-Identifier: MIT */
/* Messages of abi/control.h on a socket. Control thread only. */
#ifndef INSIDE_CONTROL_MESSAGE_H
#define INSIDE_CONTROL_MESSAGE_H

#include "abi/control.h"

#include <stddef.h>
#include <stdint.h>

#define MESSAGE_PATIENCE_NS 2000000000u /* a tool that keeps us waiting for longer is given up */

/*
 * Send one message of two parts (either may be empty); what is past CONTROL_BYTES_MAX is cut from
 * the second. `pass` is a descriptor to pass along, or -1. Never raises SIGPIPE. Waits for room for
 * *patience_ns at most, which it makes less by what it has waited; NULL: MESSAGE_PATIENCE_NS.
 * Returns 0; -ETIMEDOUT if there was no room for so long, -EPIPE and others if the other side is
 * gone.
 */
int message_send(int fd, uint16_t type, uint32_t serial, const void *body, size_t bytes,
		 const void *more, size_t more_bytes, int pass, uint64_t *patience_ns);

/* Likewise a message that is put together already, head and all. */
int message_send_whole(int fd, const void *message, size_t bytes, uint64_t *patience_ns);

/*
 * Receive one message into `buffer` of CONTROL_BYTES_MAX, aligned to 8; its length was checked.
 * Never waits. Returns 0; -EAGAIN if no message is pending; -EPIPE at the end; -WM_E_PROTOCOL if it
 * is malformed, with *message filled in if it has a header at all (magic 0 if not).
 */
int message_receive(int fd, void *buffer, struct wm_message **message);

/* Check an array of NUL-terminated strings that must fill `bytes` exactly. 0 or -EINVAL. */
int message_check_strings(const char *strings, size_t bytes, uint32_t count);

#endif
