/* SPDX-License-Identifier: MIT */
/*
 * Attach the engine to a running program, and detach it. The tool holds a thread stopped by
 * ptrace(2) and has it run these steps (struct engine_places of abi/engine.h).
 *
 * The tool may die between any two steps. A thread then continues by itself and checks whether the
 * engine is ready. If not, it returns to the program. The first thread that checks decides for all.
 */
#ifndef INSIDE_ENGINE_ATTACH_H
#define INSIDE_ENGINE_ATTACH_H

#include "inside/engine/engine_thread.h"

/*
 * In a thread of the program's that the tool has borrowed: a struct thread for each that is to be
 * taken, and it is the first of them. Where that can't be, back by the tool's own code.
 */
void attach_open(struct engine_channel *head, const struct engine_boot *boot, int err)
	__attribute__((noreturn));

#endif
