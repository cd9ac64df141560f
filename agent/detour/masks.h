/* SPDX-License-Identifier: MIT */
/*
 * What /proc tells of the program's threads, ours left out, as far as breakpoints ask. Control side.
 */
#ifndef AGENT_DETOUR_MASKS_H
#define AGENT_DETOUR_MASKS_H

/* Whether one of them blocks SIGTRAP just now. */
int masks_any_blocks(void);

/* Whether one has other filters of system calls than this thread, which has those that were there first. */
int masks_any_filtered(void);

/* Whether one blocked SIGTRAP at the last masks_any_filtered() that said no. */
int masks_any_blocked(void);

#endif
