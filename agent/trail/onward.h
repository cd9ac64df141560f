/* SPDX-License-Identifier: MIT */
/*
 * The way on from a signal: the handler's frame made the program's, what came delivered to it, and the frame made what goes on in
 * translated code. In handlers of the engine's, or with all blocked; they take its lock.
 */
#ifndef AGENT_TRAIL_ONWARD_H
#define AGENT_TRAIL_ONWARD_H

#include "agent/trail/frame.h"
#include "agent/trail/state.h"
#include "agent/trail/thread.h"

/* The frame's registers are what the engine has for the program. */
void onward_regs(struct thread *thread, struct frame_context *context);

/* Made the program's, where state_look() has found it; its path is told in the trail. */
void onward_state(struct thread *thread, const struct state *state, struct frame_context *context);

/* From where *context says, in translated code; natively where that can't be. */
void onward_cache(struct thread *thread, struct frame_context *context);

/* *context is the program's, after whatever was delivered; what is held comes on top. */
void onward_go(struct thread *thread, struct frame_context *context);

/* *context is the program's, its place told in the trail but for the event. `left`, `back_to`: deliver()'s. */
void onward_deliver(struct thread *thread, const siginfo_t *info, struct frame_context *context,
		    uint32_t left, const uint64_t *back_to);

/* Not now: everything is blocked until it is delivered. */
void onward_defer(struct thread *thread, const siginfo_t *info, struct frame_context *context);

#endif
