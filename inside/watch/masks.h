/* SPDX-License-Identifier: MIT */
/*
 * Signal masks and seccomp filters of the target's threads, as /proc shows them; the agent's own
 * threads left out. Control side.
 */
#ifndef INSIDE_WATCH_MASKS_H
#define INSIDE_WATCH_MASKS_H

/* Whether one of them blocks SIGTRAP just now. */
int masks_any_blocks(void);

/*
 * Whether one has other filters of system calls than this thread, which has those that were there
 * first.
 */
int masks_any_filtered(void);

/* Whether one blocked SIGTRAP at the last masks_any_filtered() that said no. */
int masks_any_blocked(void);

#endif
