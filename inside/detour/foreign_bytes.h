/* SPDX-License-Identifier: MIT */
/*
 * What other tools do to armed jumps. A uprobe or a debugger's breakpoint replaces a jump's first
 * byte, and a uprobe that is removed leaves the file's byte. Meanwhile events are missed: the
 * sessions get the times of that. Under the agent's lock.
 */
#ifndef INSIDE_DETOUR_FOREIGN_BYTES_H
#define INSIDE_DETOUR_FOREIGN_BYTES_H

#include "inside/detour/detour.h"

#define LOOK_MS                                                                                    \
	90 /* between looks while anything is armed: within 100 is promised for some 15,000 sites */

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
 * Whether any jump is armed; whether the next look is urgent: some jump has the form "first", or
 * may have it.
 */
int foreign_bytes_any(void);
int foreign_bytes_is_urgent(void);

#endif
