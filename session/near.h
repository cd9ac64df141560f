/* SPDX-License-Identifier: MIT */
/*
 * Places too near to each other for two jumps, or that would share filler: what is asked for together is
 * settled together, in the order in which it was asked for. A place that is in the way of none keeps the
 * span that is best for it alone. Others get a common span, if one has room for all of them (abi/detour.h). Else
 * the later one takes another span, clear of the earlier; else the earlier does; else the later is
 * refused, with the earlier's name.
 */
#ifndef SESSION_NEAR_H
#define SESSION_NEAR_H

#include "code/sweep.h"
#include "code/trampoline.h"
#include "session/asked.h"

/* `scratch` is written over. 0 or -ENOMEM. */
int near_settle(struct asked_list *asked, const struct sweep *sweep, struct trampoline *scratch);

#endif
