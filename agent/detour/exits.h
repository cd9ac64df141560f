/* SPDX-License-Identifier: MIT */
/*
 * A trampoline ends in a jump to what follows its span: its exit. A thread may come to it long after the
 * detour's own jump is gone, when another detour stands whose span begins before that and ends behind
 * it: bytes of its jump are no instruction. So before such a one is stored, exits that lead into its span are
 * made to lead to the moved copy of the same instruction in its trampoline. That stays right for ever, whatever
 * becomes of either. They lead where they did again when their own detour is armed once more.
 */
#ifndef AGENT_DETOUR_EXITS_H
#define AGENT_DETOUR_EXITS_H

#include "agent/detour/detour.h"
#include "agent/detour/list.h"

/* Find where the exit lies in the code of a detour that is being made. */
void exits_find(struct detour *detour);

/*
 * A head that is not armed, but is to be: whether all exits that lead into its span can lead to its
 * trampoline. 0; -WM_E_DETOUR_TAKEN: not to an instruction that it knows; -WM_E_DETOUR_REACH.
 */
int exits_check(struct detour *head);

/* For a batch that is to be armed: each site gets those that change with it. */
void exits_collect(struct list *list);

#endif
