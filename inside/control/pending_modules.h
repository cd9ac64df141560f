/* SPDX-License-Identifier: MIT */
/*
 * Pending SEENs: the agent notified a session that follows modules of one, and a thread in the
 * loader waits for its answer. Control thread only.
 */
#ifndef INSIDE_CONTROL_PENDING_MODULES_H
#define INSIDE_CONTROL_PENDING_MODULES_H

#include <stdint.h>

/* The agent has notified this lane's session of a module. */
void pending_modules_add(unsigned int lane, uint64_t base);

/* It has SEEN it. */
void pending_modules_seen(unsigned int lane, uint64_t base);

/* It says how far it is with it. Whether that is further than it has said before. */
int pending_modules_progress(unsigned int lane, uint64_t base, uint64_t done);

/*
 * Whether it owes a SEEN that is worth a wait: not if it has yet to say SEEN of one that was waited
 * for in vain, since it is behind then, with the next ones too.
 */
int pending_modules_waits(unsigned int lane);

/* It is waited for no longer: call `late` for each that it owes and was not called for. */
void pending_modules_forgive(unsigned int lane, void (*late)(unsigned int lane, uint64_t base));

/* Nothing is owed: it has ended, or follows modules no more. */
void pending_modules_clear(unsigned int lane);

#endif
