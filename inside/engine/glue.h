/* SPDX-License-Identifier: MIT */
/*
 * Emulates the engine's instructions between the program's. A signal then need not wait until the
 * processor has single-stepped through them, at some 50 us per step.
 */
#ifndef INSIDE_ENGINE_GLUE_H
#define INSIDE_ENGINE_GLUE_H

#include "inside/engine/engine_thread.h"
#include "inside/engine/signal_frame.h"

/*
 * Emulate the engine's instruction at the context's rip, which is in STATE_BETWEEN. 1; or 0: the
 * instruction is unknown.
 */
int glue_step(struct thread *thread, struct frame_context *context);

#endif
