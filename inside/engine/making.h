/* SPDX-License-Identifier: MIT */
/*
 * A trace in the making: what is put down of it, piece by piece and block by block, and the exits
 * by which it is left. Code that runs grows at m->hot; what runs only when the way is left, at
 * m->cold.
 *
 * Under the engine's lock.
 */
#ifndef INSIDE_ENGINE_MAKING_H
#define INSIDE_ENGINE_MAKING_H

#include "inside/engine/code_read.h"
#include "inside/engine/trace.h"
#include "inside/engine/vector.h"

#include <stdint.h>

#define MAKING_PIECES_MAX (3 * TRACE_INSTRUCTIONS_MAX + 8 * TRACE_BLOCKS_MAX)
#define MAKING_CALLS_MAX 16u

/* A trace that is checked has no more code: CODE_ONCE_MAX bytes at most. */
#define MAKING_CHECKED_INSTRUCTIONS_MAX 16u
struct cache_area;

/* An exit in the making. */
struct way_out {
	uint64_t target;
	uint8_t *jump;
	uint16_t pops;
	uint16_t blocks; /* of the path */
	uint8_t kind, reg;
	uint16_t cold_bytes;
};

struct making {
	struct cache_area *area;
	struct code_read *read;
	int error; /* -EAGAIN: what it needs must be read first; -EFAULT: it can't be; 0 */
	enum vector_width width;
	uint8_t *hot, *cold;
	uint8_t *head;
	uint64_t trace_pc, pc, start; /* the trace, the next instruction, its block */
	uint64_t guarded;	      /* the page that pages_guard() was asked about last */
	uint32_t most_blocks, most_instructions;
	int is_x87_shown;
	int is_checked, is_hot; /* hot: the path that profile.h knows */
	int is_open;		/* checked, and lastingly: by the trace itself if it can be */
	uint32_t check_bytes;	/* of the code that it compares before it runs; 0: none */
	uint64_t starts[TRACE_BLOCKS_MAX];
	struct trail_entry entries[TRACE_BLOCKS_MAX];
	uint32_t blocks;
	uint32_t instructions, in_block;
	struct way_out outs[TRACE_EXITS_MAX];
	uint32_t out_count, first_id;
	struct piece pieces[MAKING_PIECES_MAX];
	uint32_t piece_count;
	uint64_t returns[MAKING_CALLS_MAX]; /* of the calls that the trace is in */
	uint32_t calls;
	int is_called;	     /* and nothing has moved or used the stack since */
	uint8_t *piece_from; /* the code that no piece describes yet */
	int is_swapped, is_over;
	uint32_t last;			      /* of the block: its last instruction's offset */
	uint64_t unreached;		      /* what the first instruction asks for */
	int is_moved;			      /* to where that is in reach */
	uint64_t constants[TRACE_BLOCKS_MAX]; /* what was read there leads on */
	uint32_t constant_count;
};

/*
 * End a piece: the code since the last one. It is one of the program's instructions, or glue, which
 * may be empty.
 */
void making_piece_end(struct making *m, unsigned int program_bytes, unsigned int flags);
void making_beside(struct making *m, unsigned int flags);

/* xmm15 is the program's from now on, or ours. */
void making_swap_out(struct making *m);
void making_swap_in(struct making *m);

/* Add the instruction at m->pc to the current block. */
void making_block_add(struct making *m, const struct insn *insn);

/* It ended with the instruction before m->pc. */
void making_block_end(struct making *m, unsigned int kind, uint64_t target);

void making_block_begin(struct making *m, uint64_t pc);

/* An exit behind the blocks that have ended. */
struct way_out *making_out_add(struct making *m, enum exit_kind kind, uint64_t target);

/*
 * Emit its code: put the id, then a jump that can be linked. Hot: the trace ends. Cold: the code is
 * beside the trace, which continues.
 */
void making_out_hot(struct making *m, struct way_out *out);
const uint8_t *making_out_cold(struct making *m, struct way_out *out);

/* Its id put by a register, which is lost; or by rcx, which is kept in thread->scratch. */
uint8_t *making_put(struct making *m, uint8_t *at, const struct way_out *out, unsigned int reg);
void making_put_kept(struct making *m, struct way_out *out);

/* A call pushes what it returns to, and is in the trace. */
void making_push(struct making *m, uint64_t value);
void making_returns_to(struct making *m, uint64_t next);

/* Whether a block at pc may be in the trace. */
int making_fits(const struct making *m, uint64_t pc);

/* Code of another module may be too far from the trace's area. */
int making_is_near(const struct making *m, uint64_t pc);

/* On at `pc`, in the trace if it fits, else by an exit. */
void making_go_on(struct making *m, uint64_t pc);

#endif
