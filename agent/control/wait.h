/* SPDX-License-Identifier: MIT */
/*
 * How long the program waits for a tool: a launched one's first thread for GO, a thread in the loader for
 * SEEN. A tool that is at work says so (WAIT), and the wait goes on; what it is at is not known here.
 */
#ifndef AGENT_CONTROL_WAIT_H
#define AGENT_CONTROL_WAIT_H

#include <stdint.h>

/* Who waits for GO does so for `ms` more from now on. Control thread. */
void wait_renew(unsigned int ms);

/*
 * A launched program's tool, by its socket's path (abi/control.h). On a machine full of other work it may not come to say that it
 * is at work for longer than anyone would wait: so when the time is over it is looked at, and a tool that has something to
 * run, or to which an answer is owed, is waited for on. Before anybody waits.
 */
void wait_tool(const char *path);

/* Whether the control thread is at a request of a tool's. Control thread. */
void wait_serving(int whether);

/*
 * Until when one waits for GO who has begun at begin_ns and is to wait for usual_ms unless the wait is
 * renewed, for most_ms in any case, as it stands now. Any thread.
 */
uint64_t wait_end_ns(uint64_t begin_ns, unsigned int usual_ms, unsigned int most_ms);

/*
 * A thread in the loader waits; it is to wait for `ms` more from now on, as something got on; it waits no
 * more. Control thread.
 */
void wait_load_begin(uint64_t begin_ns);
void wait_load_renew(unsigned int ms);
void wait_load_over(uint64_t begin_ns);

/*
 * Until when a thread waits that entered the loader at begin_ns, as it stands now: CONTROL_LOAD_MAX_MS at
 * most, and no longer than what is left to the process of CONTROL_LOAD_ALL_MS. Any thread.
 */
uint64_t wait_load_end_ns(uint64_t begin_ns);

/* The child of a fork: what its parent was told is not meant for it. */
void wait_forked(void);

#endif
