/* SPDX-License-Identifier: MIT */
/*
 * A trace made of the program's code: copied instruction by instruction, with every register where
 * the program has it, along the path that the program will most likely take. Every other path
 * leaves through an exit.
 *
 * Under the engine's lock.
 */
#ifndef INSIDE_ENGINE_TRANSLATE_H
#define INSIDE_ENGINE_TRANSLATE_H

#include "inside/engine/code_read.h"
#include "inside/engine/trace.h"

#include <stdint.h>

/*
 * The trace of the code at pc, made unless it is there. `reader` reads the code: the lock is given
 * meanwhile. NULL: *error is -EFAULT, no code is there; -ENOEXEC, its first instruction can't be
 * translated; -ENOMEM, no memory; -ERANGE, no free addresses in reach of the code; or -EAGAIN, its
 * code must be read and there is no reader.
 */
struct trace *translate(uint64_t pc, code_reader *reader, int *error);

/*
 * Lay a trace out again, along the path that profile.h knows. The lock may be given meanwhile, and
 * the generation turn (traces_newest()). Returns the new one; or NULL: there is no memory, and the
 * old one stays.
 */
struct trace *translate_hot(struct trace *old);

/* Lead an exit to a trace from now on, without the engine. */
void translate_link(struct exit *exit, struct trace *to);

#endif
