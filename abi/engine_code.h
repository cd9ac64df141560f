/* SPDX-License-Identifier: MIT */
/*
 * The tables of the engine's translations. A tool that reads the process's memory can map the
 * address of a translation to the program's instruction.
 *
 * Translations are in areas, which begin at a multiple of ENGINE_CODE_STEP with a struct
 * engine_code_head. An area gives its memory out in the order of the traces, and none twice, so
 * what was once found at an address holds as long as the area is there. The engine changes nothing
 * that is described here once it may run, but struct engine_code_trace's `changing`.
 */
#ifndef ABI_ENGINE_CODE_H
#define ABI_ENGINE_CODE_H

#include <stdint.h>

#define ENGINE_CODE_MAGIC UINT64_C(0x65646f632d6d6177) /* "wam-code" */
#define ENGINE_CODE_STEP UINT64_C(0x100000)
#define ENGINE_CODE_PIECE_BYTES 512u
#define ENGINE_CODE_BLOCKS_MAX 48u
#define ENGINE_CODE_PIECES_MAX 1152u

struct engine_code_head {
	uint64_t magic;
	uint64_t start; /* its own address */
	/*
	 * a uint32_t for each ENGINE_CODE_PIECE_BYTES of the area: 1 + the number of the first
	 * trace that has something there; 0: none has. The traces behind it follow, among others
	 */
	uint64_t firsts_at;
	uint64_t traces_at; /* struct engine_code_trace[]; behind the last all is 0 */
	uint64_t exits_at;  /* struct engine_code_exit[], from first_id on */
	uint64_t began_ticks;
	uint32_t bytes, first_id;
	uint64_t reserved;
};

/* Its code: `landing` to `end`, with pieces that begin at `head`; and `cold` to `cold_end`. */
struct engine_code_trace {
	uint64_t pc, landing, head, end, cold, cold_end;
	uint32_t first_exit;
	uint32_t changing;
	uint16_t exits, blocks;
	uint8_t changing_too[20];
	uint64_t starts_at; /* uint64_t[blocks]: where they begin */
	uint64_t pieces_at;
	uint32_t piece_count, padding;
	uint64_t changing_last;
};

/* One behind the other, from `head` on. */
struct engine_code_piece {
	uint8_t program_bytes; /* of the instruction; 0: it is beside one */
	uint8_t code_bytes;
	uint8_t flags;
	uint8_t block;
};

struct engine_code_exit {
	uint64_t target; /* where the program is then */
	uint64_t jump;	 /* 4 bytes, the end of its code */
	uint32_t changing[2];
	uint16_t pops, blocks;
	uint8_t kind, reg;
	uint16_t cold_bytes; /* of code before `jump`, if it is in the cold part; else 0 */
};

_Static_assert(sizeof(struct engine_code_head) == 64 && sizeof(struct engine_code_trace) == 112 &&
		       sizeof(struct engine_code_piece) == 4 &&
		       sizeof(struct engine_code_exit) == 32,
	       "no padding");

#endif
