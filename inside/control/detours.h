/* SPDX-License-Identifier: MIT */
/*
 * PLACE and COMMIT, as sessions send them. Control thread, under the agent's lock, no module going
 * away.
 */
#ifndef INSIDE_CONTROL_DETOURS_H
#define INSIDE_CONTROL_DETOURS_H

#include "inside/detour/detour.h"
#include "inside/marker/marker.h"

/* Serve the body of a PLACE. Reports refusals and counts them in *change. 0, or -WM_E_PROTOCOL. */
int detours_place(unsigned int lane, const struct text *text, const char *body, size_t bytes,
		  struct change *change);

/* Arm what it has placed. 0 or an error. */
int detours_commit(unsigned int lane, const struct text *text, struct change *change);

/* A forked child has adopted what its parent had. */
void detours_adopted(const struct text *text);

/*
 * Look again whether the kernel may read the program's memory for us (careful.h), for events with
 * strings, and watches.
 */
void detours_allow(void);

/* Now and then. */
void detours_tick(const struct text *text);

/* The session wants none any more. What can't be disarmed now is later. */
void detours_let_go(unsigned int lane, const struct text *text, struct change *change);

#endif
