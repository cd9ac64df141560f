/* SPDX-License-Identifier: MIT */
/*
 * Where the program is when a signal finds a thread somewhere in translated code, and what its
 * registers are there.
 */
#ifndef INSIDE_ENGINE_STATE_H
#define INSIDE_ENGINE_STATE_H

#include "inside/engine/engine_thread.h"
#include "inside/engine/signal_frame.h"
#include "inside/engine/trace.h"

enum state_kind {
	STATE_ENGINE, /* in no translated code */
	/* in what was put in beside instructions: a few further on, the program is at one */
	STATE_BETWEEN,
	STATE_AT,   /* right before an instruction of the program's */
	STATE_IN,   /* in the code of one instruction, before it has a visible effect */
	STATE_AMID, /* in that code, after a visible effect */
};

struct state {
	enum state_kind kind;
	struct trace *trace;
	uint64_t pc;
	uint32_t block; /* the trace's block that the instruction is in */
	uint32_t ran;	/* of the block's instructions, those before it */
	uint32_t left;	/* and it and those behind it */
	uint8_t flags;	/* PIECE_* */
};

/* Find what is at an address. */
void state_look(struct state *state, uint64_t at);

/* The branch that has just left a trace by an exit, as if it had not run: STATE_IN. */
void state_left(struct state *state, const struct thread *thread, const struct exit *exit);

/* Take the last word back: its path ends with an instruction that did not run. */
void state_unrecord(struct thread *thread);

/*
 * Make the frame's registers the program's, those that differ: rip, rcx, xmm15; thread->pointer is
 * where the next word goes, words put for an instruction that did not run taken back. For STATE_AT
 * and STATE_IN; STATE_AMID, if the instruction has faulted.
 */
void state_to_program(const struct state *state, struct thread *thread,
		      struct frame_context *context);

/*
 * Make the address of the last x87 instruction one of the program's: in saved registers, or in the
 * thread's own. 0 is for code that was dropped. state_x87(): 1 if it has changed it.
 */
int state_x87(struct _libc_fpstate *vectors);
void state_x87_now(void);

#endif
