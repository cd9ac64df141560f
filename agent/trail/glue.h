/* SPDX-License-Identifier: MIT */
/*
 * What translated code has beside the program's instructions, done by hand: a signal need not wait until the processor has passed it,
 * step by step, at some 50 us each.
 */
#ifndef AGENT_TRAIL_GLUE_H
#define AGENT_TRAIL_GLUE_H

#include "agent/trail/frame.h"
#include "agent/trail/thread.h"

/* Do the one instruction of ours at the context's rip, which is in STATE_BETWEEN. 1; or 0: it is none that is known here. */
int glue_step(struct thread *thread, struct frame_context *context);

#endif
