/* SPDX-License-Identifier: MIT */
/*
 * Ends blocks of a trace in the making. Translates the instruction at m->pc, whose bytes are
 * `code`. The trace's next block, or an exit, follows.
 *
 * Under the engine's lock.
 */
#ifndef INSIDE_ENGINE_END_H
#define INSIDE_ENGINE_END_H

#include "inside/engine/making.h"

void end_jump(struct making *m, const struct insn *insn);
void end_branch(struct making *m, const struct insn *insn, const uint8_t *code);
void end_call(struct making *m, const struct insn *insn);
void end_return(struct making *m, const struct insn *insn);

/* A jump or a call. Its operand is in reach. */
void end_indirect(struct making *m, const struct insn *insn, const uint8_t *code);

void end_syscall(struct making *m, const struct insn *insn);

/* ud2, int3, hlt: what happens, happens there; and may come back behind. */
void end_stop(struct making *m, const struct insn *insn, const uint8_t *code);

/* The block ends before m->pc, which is not for this trace any more. */
void end_here(struct making *m);

/* Nor for any other. */
void end_refused(struct making *m);

/* It has a breakpoint of another tool: the first of a trace, and its last. It runs natively. */
void end_native(struct making *m, const struct insn *insn);

/* Not here; a trace that begins with it may have it in reach, or be made where it is. */
void end_unreached(struct making *m, const struct insn *insn, const uint8_t *code);

#endif
