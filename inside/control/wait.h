/* SPDX-License-Identifier: MIT */
/*
 * How long the program waits for a tool: a launched one's first thread for GO, a thread in the
 * loader for SEEN. A busy tool sends WAIT, which extends the wait; the agent does not know what the
 * tool is doing.
 */
#ifndef INSIDE_CONTROL_WAIT_H
#define INSIDE_CONTROL_WAIT_H

#include <stdint.h>

/* Extend the wait for GO to `ms` from now. Control thread. */
void wait_renew(unsigned int ms);

/*
 * A launched program's tool, by its socket's path (abi/control.h). On a machine full of other work
 * it may not come to say that it is at work for longer than anyone would wait: so when the time is
 * over it is looked at, and a tool that has something to run, or to which an answer is owed, is
 * waited for on. Before anybody waits.
 */
void wait_tool(const char *path);

/* Whether the control thread is at a request of a tool's. Control thread. */
void wait_serving(int whether);

/*
 * A launched program is to wait for GO; it waits no more, whether GO came or never will. Any
 * thread.
 */
void wait_go_begin(void);
void wait_go_over(void);

/* Wait for that: usual_ms unless renewed, at most most_ms. 0 or -ETIMEDOUT. Any thread. */
int wait_go(unsigned int usual_ms, unsigned int most_ms);

/*
 * A thread in the loader waits; it is to wait for `ms` more from now on, as something got on; it
 * waits no more. Control thread.
 */
void wait_load_begin(uint64_t begin_ns);
void wait_load_renew(unsigned int ms);
void wait_load_over(uint64_t begin_ns);

/*
 * The current deadline of a thread that entered the loader at begin_ns: CONTROL_LOAD_MAX_MS at
 * most, and no longer than what is left to the process of CONTROL_LOAD_ALL_MS. Any thread.
 */
uint64_t wait_load_end_ns(uint64_t begin_ns);

/* In the child of a fork: forget the messages that its parent got. */
void wait_forked(void);

/*
 * Pending SEENs: the agent notified a session that follows modules of one, and a thread in the
 * loader waits for its answer. Control thread only.
 */

/* The agent has notified this lane's session of a module. */
void wait_modules_add(unsigned int lane, uint64_t base);

/* It has SEEN it. */
void wait_modules_seen(unsigned int lane, uint64_t base);

/* It says how far it is with it. Whether that is further than it has said before. */
int wait_modules_progress(unsigned int lane, uint64_t base, uint64_t done);

/*
 * Whether it owes a SEEN that is worth a wait: not if it has yet to say SEEN of one that was waited
 * for in vain, since it is behind then, with the next ones too.
 */
int wait_modules_pending(unsigned int lane);

/* It is waited for no longer: call `late` for each that it owes and was not called for. */
void wait_modules_forgive(unsigned int lane, void (*late)(unsigned int lane, uint64_t base));

/* Nothing is owed: it has ended, or follows modules no more. */
void wait_modules_clear(unsigned int lane);

#endif
