/* SPDX-License-Identifier: MIT */
/*
 * How long a thread of the program waits for a tool: a launched program's first for GO, one in the
 * loader for SEEN. A tool that is at work says so (WAIT), and the wait goes on; what it is at is not known here.
 */
#ifndef AGENT_CONTROL_WAIT_H
#define AGENT_CONTROL_WAIT_H

#include <stdint.h>

/* Whoever waits does so for `ms` more from now on, CONTROL_WAIT_MAX_MS in all. Any thread. */
void wait_renew(unsigned int ms);

/*
 * Until when one waits who has begun at begin_ns and is to wait for usual_ms unless the wait is renewed,
 * as it stands now. Any thread.
 */
uint64_t wait_end_ns(uint64_t begin_ns, unsigned int usual_ms);

/* The child of a fork: what its parent was told is not meant for it. */
void wait_forked(void);

#endif
