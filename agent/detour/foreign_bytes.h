/* SPDX-License-Identifier: MIT */
/*
 * What other tools do to armed jumps. A uprobe or a debugger's breakpoint replaces a jump's first
 * byte, and a uprobe that is removed leaves the file's byte. Meanwhile events are missed: the
 * sessions get the times of that. Under the agent's lock.
 */
#ifndef AGENT_DETOUR_FOREIGN_BYTES_H
#define AGENT_DETOUR_FOREIGN_BYTES_H

#include "agent/detour/detour.h"

#define LOOK_MS                                                                                    \
	90 /* between looks while anything is armed: within 100 is promised for some 15,000 sites */

/* The head is armed now for the events of a lane; is_held: as soon as another tool has gone. */
void look_armed(struct detour *head, int is_held, unsigned int lane);

/*
 * The head is no longer armed: a missed interval ends here. look_forget(), for a forked child,
 * reports nothing.
 */
void look_end(struct detour *head);
void look_forget(struct detour *head);

/* The wishes of sessions have changed. */
void look_changed(void);

/* Compare all that are armed; store again what went. */
void look(const struct text *text);

/* Compare where they lead: who maps other memory there has its jumps taken away. */
void look_landings(const struct text *text);

/*
 * Whether any jump is armed; whether the next look is urgent: some jump has the form "first", or
 * may have it.
 */
int look_any(void);
int look_is_urgent(void);

#endif
