/* SPDX-License-Identifier: MIT */
#ifndef INSIDE_CONTROL_HELLO_H
#define INSIDE_CONTROL_HELLO_H

#include "abi/control.h"

/*
 * Send HELLO; flags are SESSION_*, `inherited` what the tool has placed in our parent, or NULL.
 * Control thread. 0 or an error.
 */
int hello_send(int fd, unsigned int flags, const struct control_inherited *inherited);

/* Say instead that this program has no agent, and why. Any thread. 0 or an error. */
int hello_refuse(int fd, int error);

#endif
