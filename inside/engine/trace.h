/* SPDX-License-Identifier: MIT */
/*
 * Traces: blocks of the program that follow each other, translated as one piece of code that is
 * entered at its head and left by its exits. Each exit has an id, which it puts into the trail: the
 * path from the head to there.
 *
 * Changed under the engine's lock. What a handler asks of a trace was whole before the trace could
 * run.
 */
#ifndef INSIDE_ENGINE_TRACE_H
#define INSIDE_ENGINE_TRACE_H

#include "abi/engine_code.h"
#include "inside/engine/engine_thread.h"

#include <stdint.h>

#define TRACE_BLOCKS_MAX 48u
#define TRACE_EXITS_MAX (TRACE_BLOCKS_MAX + 2)
#define TRACE_INSTRUCTIONS_MAX 256u

enum exit_kind {
	EXIT_DIRECT,   /* to `target` */
	EXIT_RETURN,   /* to what lay at the stack's top */
	EXIT_REGISTER, /* to what is in `reg` */
	EXIT_MEMORY,   /* to thread->target */
	EXIT_SYSCALL,  /* a system call; `target` is behind it */
	EXIT_REFUSED,  /* `target` can't be translated */
	EXIT_NATIVE,   /* `target`, which the path ends with, runs natively */
};

struct exit {
	uint64_t target;
	uint8_t *jump; /* four bytes that lead to gate_exit until it is linked; NULL: it never is */
	uint32_t trace;
	uint32_t next; /* of those that lead to the same trace; 0: the last */
	/*
	 * EXIT_RETURN: so many bytes beside the address were dropped from the stack. EXIT_REGISTER
	 * and EXIT_MEMORY: a call has pushed so many
	 */
	uint16_t pops;
	uint16_t blocks; /* of the path */
	uint8_t kind, reg;
	uint16_t cold_bytes; /* of its code before `jump`, where that is in the cold part */
};

/* A piece of translated code: an instruction of the program's, or what was put in beside it. */
struct piece {
	uint8_t program_bytes; /* 0: beside */
	uint8_t cache_bytes;
	uint8_t flags; /* PIECE_* */
	uint8_t block; /* of the trace's: the instruction is in it */
};

#define PIECE_SWAPPED 1u /* xmm15 is the program's */
#define PIECE_SPILLED 2u /* rcx is in thread->scratch */
/*
 * the id of `block`'s exit has been put already, though the block's last instruction is still to
 * run
 */
#define PIECE_RECORDED 4u
#define PIECE_CHECKS 8u /* compares the code with what was translated; none of it has run */

struct trace {
	uint64_t pc;
	uint8_t *landing; /* where indirect branches enter */
	uint8_t *head;
	uint8_t *end; /* of the hot code */
	uint8_t *cold, *cold_end;
	uint32_t first_exit;
	uint32_t incoming; /* an exit that is linked to it; 0: none */
	uint16_t exits, blocks;
	uint8_t is_dead; /* its code has changed, or is gone */
	/* entered only through the engine, which looks whether its code is still `code` */
	uint8_t is_checked;
	uint8_t is_x87_shown; /* begins with fnstenv or the like; entered only through the engine */
	uint16_t code_bytes;
	uint16_t heat;		/* how often profile.c has met it */
	uint8_t layouts;	/* how often its code has been laid out again */
	const uint8_t *code;	/* of its only block, if that is compared with it; or NULL */
	const uint64_t *starts; /* of its blocks */
	const struct piece *pieces;
	uint32_t piece_count;
	/* ids of its first 1, 2 ... blocks, for paths that no exit has; NULL: none yet */
	uint32_t *prefixes;
};

/* 0, or -ENOMEM. */
int traces_open(void);

/* Where a new area finds its traces (abi/engine_code.h). */
void traces_describe(struct engine_code_head *head);

/* The trace that begins at pc, if there is one now. */
struct trace *trace_at(uint64_t pc);

/*
 * The trace whose code an address in the cache is, of those that the calling thread may be in;
 * NULL: none.
 */
struct trace *trace_of(uint64_t address);

/*
 * If there are too many traces, all are dropped together: a new generation begins, and the old one
 * is freed once no thread is in it.
 *
 * trace_in(): the thread is about to continue in translated code of the newest. trace_out(): until
 * then it is in none.
 */
void trace_in(struct thread *thread);
void trace_out(struct thread *thread);

/*
 * Begin a new generation if there is too much code, or traces_ask() has asked for one. Callers must
 * not keep traces or exits across the call.
 */
void traces_turn(void);

/*
 * The blocks of an id's path, if the thread is in the generation that the id is of; 0: it is not.
 * No lock.
 */
uint32_t trace_path_blocks(const struct thread *thread, uint32_t id);

/* The number of the newest generation; whether it is the only one. */
uint64_t traces_newest(void);
int traces_are_new(void);

/* It has to wait: some thread may still be in each of the old ones. */
int traces_are_stuck(void);
void traces_ask(void);

/* Free what no thread is in any more. A thread that continues does so, too. */
void traces_drop(void);

/* The next id. */
uint32_t trace_next_id(void);

/* In a copy of the process: no thread is in any. */
void traces_copied(void);

/* NULL: it is of no trace, or of one that is gone. trace_exit_now(): of the newest generation. */
struct exit *trace_exit_of(uint32_t id);
struct exit *trace_exit_now(uint32_t id);

/* 0: it is not of the newest generation. */
uint32_t trace_exit_number(const struct exit *exit);
struct trace *trace_numbered(uint32_t number);

/* The trace that the thread has just left by that exit. */
struct trace *trace_left(const struct thread *thread, const struct exit *exit);

/* Room for a trace, its exits' ids in a row behind all others. NULL: no memory, or no ids. */
struct trace *trace_add(uint64_t pc, uint16_t exits);
uint32_t trace_number(const struct trace *trace);

/* It is not made after all. */
void trace_take_back(const struct trace *trace);

/* It is complete: trace_at() and trace_of() find it. Ids beyond trace->exits are given back. */
void trace_publish(struct trace *trace);

/* An exit leads to it from now on. */
void trace_incoming(struct trace *trace, uint32_t id);

/* Nothing leads there any more. A thread in it continues to its end. */
void trace_kill(struct trace *trace);

/*
 * The id of the path of a trace's first `blocks` blocks, a new one if no exit has it. 0: no id is
 * free.
 */
uint32_t trace_prefix(struct trace *trace, uint32_t blocks);

#endif
