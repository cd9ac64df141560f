/* SPDX-License-Identifier: MIT */
#ifndef AGENT_CONTROL_HELLO_H
#define AGENT_CONTROL_HELLO_H

/* Send HELLO; flags are SESSION_*. Control thread. 0 or an error. */
int hello_send(int fd, unsigned int flags);

#endif
