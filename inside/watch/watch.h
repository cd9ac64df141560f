/* SPDX-License-Identifier: MIT */
/*
 * Watches, control side: what sessions ask for by WATCH and UNWATCH (abi/watch.h). Under the
 * agent's lock.
 *
 * The tool owns the kernel's events. While it has any, or may have (it hung up, but is still alive,
 * or that is unknown), the signal's handler stays for all sessions: without it the next hit would
 * kill the program.
 */
#ifndef INSIDE_WATCH_WATCH_H
#define INSIDE_WATCH_WATCH_H

#include "abi/watch.h"
#include "inside/marker/module.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Take one watch's hits from here on. `tool`: the process that asks, 0 where it can't be named. *fd
 * gets the table's descriptor where this is the session's first, for the caller to send and close,
 * else -1. Returns 0; -WM_E_PROTOCOL for what makes no sense, -EEXIST for a number that is taken,
 * -ENOSPC past WATCH_ROWS_MAX, -EBUSY where too many tools that hung up may have events still, what
 * sigtrap_take() says, -EPIPE, -ENOMEM, -errno.
 */
int watch_add(unsigned int lane, const struct control_watch *about, const char *text, size_t bytes,
	      pid_t tool, int *fd);

/* No hit of those is taken any more; the tool has closed their events. */
void watch_remove(unsigned int lane, uint32_t from, uint32_t to);

/*
 * Likewise all of a session's. `hung_up`: the tool went without a word, and its events may be there
 * still.
 */
void watch_release(unsigned int lane, int hung_up);

/* A control thread begins: the descriptors of the one before are gone. */
void watch_begin(void);

/* Now and then: what had to be put off; what the program has done about SIGTRAP. */
void watch_tick(void);

/* Notify each session that has watches that they can't stay, and why. */
void watch_yield(int error);

/* Whether any hit may still be taken. */
int watch_any_live(void);

/* Whether there are watches; whether the handler must stay without any. */
int watch_any(void);
int watch_waits(void);

/*
 * Once, before the first registry_scan(): from here on guards can be placed, and the registry
 * reports modules that are new, or gone.
 */
void watch_init(void);
void watch_module_gone(const struct module *module);

/* Where the agent's own code is, from..to; once, before anything is watched. */
void watch_own_code(uintptr_t start, uintptr_t end);

/* The child of a fork has none. */
void watch_forked(void);

/* How to notify a session that its watches can't stay. */
extern void (*watch_lost)(unsigned int lane, int error);

#endif
