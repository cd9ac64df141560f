/* SPDX-License-Identifier: MIT */
/*
 * Continue after a signal: make the handler's frame the program's, deliver the signal, and make the
 * frame continue in translated code. Called in the engine's handlers, or with all signals blocked.
 * Takes the engine's lock.
 */
#ifndef INSIDE_ENGINE_ONWARD_H
#define INSIDE_ENGINE_ONWARD_H

#include "inside/engine/engine_thread.h"
#include "inside/engine/signal_frame.h"
#include "inside/engine/state.h"

/* The frame's registers are what the engine has for the program. */
void onward_regs(struct thread *thread, struct frame_context *context);

/* Make the frame the program's, from what state_look() found. Records the path in the trail. */
void onward_state(struct thread *thread, const struct state *state, struct frame_context *context);

/* The path up to where the program is, in the trail. Takes the engine's lock. */
void onward_path(struct thread *thread, const struct state *state);

/* From where *context says, in translated code; natively where that can't be. */
void onward_cache(struct thread *thread, struct frame_context *context);

/*
 * Of a thread that runs natively for the moment (is_trying): its step's trap, behind which it
 * continues natively or in translated code; and a fault.
 */
void onward_tried(struct thread *thread, const siginfo_t *info, struct frame_context *context);
void onward_fault(struct thread *thread, const siginfo_t *info, struct frame_context *context);

/* *context is the program's, after whatever was delivered; what is held comes on top. */
void onward_go(struct thread *thread, struct frame_context *context);

/*
 * *context is the program's. The trail has its place, but not the event. `left`, `back_to`:
 * deliver()'s.
 */
void onward_deliver(struct thread *thread, const siginfo_t *info, struct frame_context *context,
		    uint32_t left, const uint64_t *back_to);

/* Not now: everything is blocked until it is delivered. */
void onward_defer(struct thread *thread, const siginfo_t *info, struct frame_context *context);

#endif
