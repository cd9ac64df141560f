/* SPDX-License-Identifier: MIT */
/*
 * Children that recorded processes make: reported in entries of their parent's channel
 * (struct engine_child) until they are known, and given a channel of their own.
 */
#ifndef RECORD_TRAIL_SOFT_SOFT_CHILDREN_H
#define RECORD_TRAIL_SOFT_SOFT_CHILDREN_H

#include "record/trail/soft/soft_follow.h"

/* The entry that its parent has for it; NULL: it is used no more. */
struct engine_child *soft_children_entry(const struct soft_follow *follow,
					 const struct soft_process *process);

/* The entry is needed no more. */
void soft_children_give_entry(struct soft_follow *follow, struct soft_process *process);

/* New entries of a process: its children are expected. Whether there was one. */
int soft_children_look(struct soft_follow *follow, struct soft_process *process);

/* One that is expected: whether it lives by now, or was given up. */
int soft_children_look_expected(struct soft_follow *follow, struct soft_process *process);

/* Why a child could not be had, as far as that shows. */
enum engine_unfollowed soft_children_cause(const struct soft_process *process);

/* Whether a process that has ended had run without a channel of its own. */
int soft_children_is_lost(const struct soft_process *process);

/*
 * A traced thread that runs natively is about to make a call that fails while it is traced: let it
 * go.
 */
int soft_children_calls_untraced(struct soft_follow *follow, const struct soft_process *process);

/* It has made another thread or process, which the kernel traces, too: count a process. */
void soft_children_made(struct soft_follow *follow, const struct soft_process *process);

#endif
