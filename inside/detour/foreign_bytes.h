/* SPDX-License-Identifier: MIT */
/*
 * What other tools do to armed jumps. A uprobe or a debugger's breakpoint replaces a jump's first
 * byte, and a uprobe that is removed leaves the file's byte. Meanwhile events are missed: the
 * sessions get the times of that. Under the agent's lock.
 */
#ifndef INSIDE_DETOUR_FOREIGN_BYTES_H
#define INSIDE_DETOUR_FOREIGN_BYTES_H

#include "inside/detour/detour.h"

/* The head is armed now for the events of a lane; is_held: as soon as another tool has gone. */
void foreign_bytes_armed(struct detour *head, int is_foreign, unsigned int lane);

/*
 * The head is no longer armed: a missed interval ends here. foreign_bytes_forget(), for a forked
 * child, reports nothing.
 */
void foreign_bytes_end(struct detour *head);
void foreign_bytes_forget(struct detour *head);

/* The wishes of sessions have changed. */
void foreign_bytes_changed(void);

/* Compare all that are armed; store again what went. */
void foreign_bytes_look(const struct text *text);

/* Compare where they lead: who maps other memory there has its jumps taken away. */
void foreign_bytes_landings(const struct text *text);

/*
 * Look at all that is armed, markers too (inside/marker/restored.c), at each tick of the control
 * thread; between ticks where another tool's byte can harm the program. Control thread, without the
 * agent's lock. Times are of CLOCK_MONOTONIC.
 */
void foreign_bytes_tick(const struct text *text, uint64_t now_ns, int is_tick);

/* Milliseconds until the next tick, or the next look. */
int foreign_bytes_wait_ms(uint64_t now_ns, uint64_t next_tick_ns);

#endif
