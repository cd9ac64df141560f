/* SPDX-License-Identifier: MIT */
#include "agent/trail/translate.h"
#include "agent/trail/cache.h"
#include "agent/trail/channel.h"
#include "agent/trail/emit.h"
#include "agent/trail/gate.h"
#include "agent/trail/insn.h"
#include "agent/trail/liveness.h"
#include "agent/trail/log.h"
#include "agent/trail/map.h"
#include "agent/trail/memory.h"
#include "agent/trail/pages.h"
#include "agent/trail/profile.h"
#include "agent/trail/ranges.h"
#include "agent/trail/sys.h"
#include "agent/trail/thread.h"
#include "agent/trail/vector.h"

#include <cpuid.h>
#include <errno.h>

#define PIECES_MAX (3 * TRACE_INSTRUCTIONS_MAX + 8 * TRACE_BLOCKS_MAX)
#define READY_AHEAD 2048u /* most traces are smaller */
#define CALLS_MAX 16u

/* A trace that is checked has no more code. */
#define CHECKED_INSTRUCTIONS_MAX 16u
#define COPIED_MAX ((CHECKED_INSTRUCTIONS_MAX + 1) * INSN_BYTES_MAX)

/* Opcodes. */
#define SYSCALL 0x05 /* behind 0f */
#define POP 0x58
#define XCHG 0x87
#define XCHG_RAX 0x94 /* rsp */
#define LEA 0x8d

/* A trace that nobody has seen to be hot yet. */
#define COLD_BLOCKS_MAX 16u

#define UNROLL_MAX 8u
#define UNROLL_INSTRUCTIONS_MAX 160u

/* Registers that vector_put() can go by. */
#define PUT_REGISTERS 0xcfcfu

static enum vector_width width;
static int is_amd;

void translate_open(void)
{
	uint32_t a, b, c, d;

	width = vector_look();
	is_amd = __get_cpuid(0, &a, &b, &c, &d) && b == signature_AMD_ebx && c == signature_AMD_ecx;
}

int translate_is_amd(void)
{
	return is_amd;
}

unsigned int translate_vector_bytes(void)
{
	return width == VECTOR_SSE ? 16 : width == VECTOR_AVX ? 32 : 64;
}

struct way_out {
	uint64_t target;
	uint8_t *jump;
	uint16_t pops;
	uint16_t blocks; /* of the path */
	uint8_t kind, reg;
};

/* A trace in the making. */
struct making {
	struct cache_area *area;
	uint8_t *hot, *cold;
	uint8_t *head;
	uint64_t pc, start; /* the next instruction, its block */
	uint64_t guarded;   /* the page that pages_guard() was asked about last */
	uint32_t most_blocks, most_instructions;
	int is_checked, is_hot; /* hot: the way that profile.h knows */
	uint64_t starts[TRACE_BLOCKS_MAX];
	struct trail_entry entries[TRACE_BLOCKS_MAX];
	uint32_t blocks;
	uint32_t instructions, in_block;
	struct way_out outs[TRACE_EXITS_MAX];
	uint32_t out_count, first_id;
	struct piece pieces[PIECES_MAX];
	uint32_t piece_count;
	uint64_t returns[CALLS_MAX]; /* of the calls that the trace is in */
	uint32_t calls;
	int is_called; /* and nothing has moved or used the stack since */
	uint8_t *piece_from; /* the code that no piece describes yet */
	int is_swapped, is_over;
	uint32_t last;	    /* of the block: its last instruction's offset */
	uint64_t unreached; /* what the first instruction asks for */
	int is_moved;	    /* to where that is in reach */
	uint32_t copied;    /* checked: so much of its code is in `copy` */
	uint64_t copied_from;
	uint8_t copy[COPIED_MAX];
};

static struct making making; /* the engine's lock covers it */

/* ---- pieces ---- */

static void piece_end(struct making *m, unsigned int program_bytes, unsigned int flags)
{
	if (m->piece_count == PIECES_MAX)
		return;
	m->pieces[m->piece_count++] = (struct piece){
		.program_bytes = (uint8_t)program_bytes,
		.cache_bytes = (uint8_t)(m->hot - m->piece_from),
		.flags = (uint8_t)(flags | (m->is_swapped ? PIECE_SWAPPED : 0)),
		.block = (uint8_t)m->blocks,
	};
	m->piece_from = m->hot;
}

/* Glue. */
static void beside(struct making *m, unsigned int flags)
{
	if (m->hot != m->piece_from)
		piece_end(m, 0, flags);
}

static void swap_out(struct making *m)
{
	if (m->is_swapped)
		return;
	m->hot = vector_give(m->hot, width);
	beside(m, 0);
	m->is_swapped = 1;
}

static void swap_in(struct making *m)
{
	if (!m->is_swapped)
		return;
	m->hot = vector_take(m->hot, width);
	beside(m, 0);
	m->is_swapped = 0;
}

/* ---- blocks and exits ---- */

/* The instruction at m->pc is in the block that goes on. */
static void block_add(struct making *m, const struct insn *insn)
{
	m->last = (uint32_t)(m->pc - m->start);
	m->in_block++;
	m->instructions++;
	m->pc += insn->bytes;
}

/* It ended with the instruction before m->pc. */
static void block_end(struct making *m, unsigned int kind, uint64_t target)
{
	m->entries[m->blocks] = (struct trail_entry){
		.start = m->start,
		.target = target,
		.bytes = (uint16_t)(m->pc - m->start),
		.last = (uint16_t)m->last,
		.instructions = (uint16_t)m->in_block,
		.kind = (uint8_t)kind,
		.flags = TRAIL_HAS_CODE,
	};
	m->starts[m->blocks++] = m->start;
	m->in_block = 0;
}

static void block_begin(struct making *m, uint64_t pc)
{
	m->pc = m->start = pc;
}

/*
 * Whether a block may come next for what is in the trace already. In a hot trace it may come again, which unrolls a loop, as long as
 * another turn fits.
 */
static int may_come(const struct making *m, uint64_t start)
{
	uint32_t times = 0, turn = 0;

	for (uint32_t i = m->blocks; i-- > 0;) {
		if (m->starts[i] != start)
			continue;
		if (!times++)
			turn = m->blocks - i;
	}
	if (!times)
		return 1;
	return m->is_hot && times < UNROLL_MAX && m->blocks + turn <= m->most_blocks &&
	       m->instructions + m->instructions / times <= UNROLL_INSTRUCTIONS_MAX;
}

static struct way_out *out_add(struct making *m, enum exit_kind kind, uint64_t target)
{
	struct way_out *out = &m->outs[m->out_count++];

	*out = (struct way_out){ .target = target,
				 .kind = (uint8_t)kind,
				 .blocks = (uint16_t)m->blocks };
	return out;
}

static uint32_t out_id(const struct making *m, const struct way_out *out)
{
	return m->first_id + (uint32_t)(out - m->outs);
}

static uint8_t *put_by(struct making *m, uint8_t *at, const struct way_out *out, unsigned int reg)
{
	return vector_put(at, width, out_id(m, out), reg, &m->area->head->step);
}

/* Put the id by a register that `target` does not need, or one that is kept meanwhile. */
static uint8_t *put_for(struct making *m, uint8_t *at, const struct way_out *out)
{
	uint32_t dead = m->is_hot ? liveness_dead(out->target) & PUT_REGISTERS : 0;

	if (dead)
		return put_by(m, at, out, (unsigned int)__builtin_ctz(dead));
	at = emit_save(at, RAX, THREAD_SCRATCH);
	at = put_by(m, at, out, RAX);
	return emit_load(at, RAX, THREAD_SCRATCH);
}

/* The id, and a jump that is linked when it is first taken: its displacement within eight bytes that are changed at once. */
static uint8_t *direct(struct making *m, uint8_t *at, struct way_out *out)
{
	at = put_for(m, at, out);
	while (((uintptr_t)at + 1) % 8 > 4)
		at = emit_8(at, 0x90);
	at = emit_8(at, 0xe9);
	out->jump = at;
	return emit_relative(at, m->area->head->exit_jump);
}

static void out_hot(struct making *m, struct way_out *out)
{
	m->hot = direct(m, m->hot, out);
	beside(m, 0);
	m->is_over = 1;
}

static const uint8_t *out_cold(struct making *m, struct way_out *out)
{
	const uint8_t *at = m->cold;

	m->cold = direct(m, m->cold, out);
	return at;
}

/* jmp *gate, whose address is in the area's head. */
static uint8_t *gate_jump(uint8_t *at, const uint64_t *gate)
{
	return emit_relative(emit_bytes(at, "\xff\x25", 2), gate);
}

/* ---- what ends blocks ---- */

/* The block ends before m->pc, which is not for this trace any more. */
static void end_here(struct making *m)
{
	swap_in(m);
	if (m->in_block)
		block_end(m, TRAIL_FALL, 0);
	out_hot(m, out_add(m, EXIT_DIRECT, m->pc));
}

static int has_room(const struct making *m)
{
	return m->blocks < m->most_blocks && m->instructions < m->most_instructions &&
	       m->out_count + 3 < TRACE_EXITS_MAX;
}

static int is_in_reach(const uint8_t *from, uint64_t to)
{
	int64_t distance = (int64_t)(to - (uint64_t)from);

	return distance > -INT64_C(0x7fff0000) && distance < INT64_C(0x7fff0000);
}

static int fits(const struct making *m, uint64_t pc)
{
	return has_room(m) && may_come(m, pc) && ranges_left(pc);
}

/* Code of another module may be too far from the trace's area. */
static int is_near(const struct making *m, uint64_t pc)
{
	return cache_area_for(pc) == m->area;
}

/* On at `pc`, in the trace if it fits, else by an exit. */
static void go_on(struct making *m, uint64_t pc)
{
	if (fits(m, pc))
		block_begin(m, pc);
	else
		out_hot(m, out_add(m, EXIT_DIRECT, pc));
}

static void jump(struct making *m, const struct insn *insn)
{
	swap_in(m);
	piece_end(m, insn->bytes, 0); /* no code: it is gone */
	block_add(m, insn);
	block_end(m, TRAIL_JUMP, insn->target);
	go_on(m, insn->target);
}

/* A conditional jump, or one that only knows short displacements, to `to`; of the condition's opposite if is_not. */
static void condition(struct making *m, const struct insn *insn, const uint8_t *code, int is_not,
		      const uint8_t *to)
{
	uint8_t opcode = code[insn->opcode_at];

	if (!(insn->traits & INSN_SHORT)) {
		m->hot = emit_8(m->hot, 0x0f);
		m->hot = emit_8(m->hot, (uint8_t)(0x80 | ((opcode & 15) ^ (is_not ? 1 : 0))));
		m->hot = emit_relative(m->hot, to);
		return;
	}
	if (insn->is_short_address)
		m->hot = emit_8(m->hot, 0x67);
	m->hot = emit_8(m->hot, opcode);
	if (is_not) { /* over the jump */
		m->hot = emit_8(m->hot, 5);
	} else {
		m->hot = emit_8(m->hot, 2);
		m->hot = emit_bytes(m->hot, "\xeb\x05", 2);
	}
	m->hot = emit_jump(m->hot, to);
}

static void branch(struct making *m, const struct insn *insn, const uint8_t *code)
{
	uint64_t next = m->pc + insn->bytes;
	uint64_t likely = m->is_hot ? profile_next(m->start) : 0;
	int is_known = likely == next || likely == insn->target;
	int is_taken = is_known ? likely == insn->target : insn->target <= m->pc;
	struct way_out *side;

	swap_in(m);
	block_add(m, insn);
	block_end(m, TRAIL_BRANCH, insn->target);
	side = out_add(m, EXIT_DIRECT, is_taken ? next : insn->target);
	m->blocks--; /* for the piece */
	condition(m, insn, code, is_taken, out_cold(m, side));
	piece_end(m, insn->bytes, 0);
	m->blocks++;
	if (is_taken && !is_known)
		out_hot(m, out_add(m, EXIT_DIRECT, insn->target));
	else
		go_on(m, is_taken ? insn->target : next);
}

static void push(struct making *m, uint64_t value)
{
	if ((uint64_t)(int64_t)(int32_t)value == value) {
		m->hot = emit_32(emit_8(m->hot, 0x68), (uint32_t)value);
		return;
	}
	m->cold = (uint8_t *)(((uintptr_t)m->cold + 7) & ~(uintptr_t)7);
	m->hot = emit_relative(emit_bytes(m->hot, "\xff\x35", 2), m->cold);
	m->cold = emit_64(m->cold, value);
}

/* A call in the trace. */
static void returns_to(struct making *m, uint64_t next)
{
	m->is_called = 1;
	if (m->calls < CALLS_MAX)
		m->returns[m->calls++] = next;
	else
		m->calls = 0;
}

static void call(struct making *m, const struct insn *insn)
{
	uint64_t next = m->pc + insn->bytes;

	swap_in(m);
	push(m, next);
	piece_end(m, insn->bytes, 0);
	block_add(m, insn);
	block_end(m, TRAIL_CALL, insn->target);
	map_known(next);
	returns_to(m, next);
	go_on(m, insn->target);
}

/* rcx is kept, and used to put the id. */
static void put_indirect(struct making *m, struct way_out *out)
{
	m->hot = emit_save(m->hot, RCX, THREAD_SCRATCH);
	beside(m, 0);
	m->hot = put_by(m, m->hot, out, RCX);
	beside(m, PIECE_SPILLED);
}

static void return_any(struct making *m, const struct insn *insn)
{
	struct way_out *out;

	block_add(m, insn);
	block_end(m, TRAIL_RETURN, 0);
	out = out_add(m, EXIT_RETURN, 0);
	out->pops = insn->pops;
	m->blocks--;
	put_indirect(m, out);
	m->hot = emit_bytes(m->hot, "\x8b\x0c\x24", 3); /* mov (%rsp), %ecx */
	piece_end(m, insn->bytes, PIECE_SPILLED | PIECE_RECORDED);
	m->hot = emit_drop(m->hot, 8 + insn->pops);
	m->hot = map_emit_jump(m->hot);
	beside(m, PIECE_SPILLED);
	m->blocks++;
	m->is_over = 1;
}

/* What comes where a return in the trace does not go back to its call. */
static const uint8_t *astray(struct making *m, struct way_out *out)
{
	const uint8_t *at = m->cold;

	m->cold = emit_save(m->cold, RCX, THREAD_SCRATCH);
	m->cold = put_by(m, m->cold, out, RCX);
	m->cold = emit_bytes(m->cold, "\x8b\x0c\x24", 3);
	m->cold = emit_drop(m->cold, 8 + out->pops);
	m->cold = map_emit_jump(m->cold);
	return at;
}

/*
 * A return to where it most likely goes, back to a call that is in the trace itself, or by the profile: looked at, and passed. Flags
 * that no return to there needs may be needed elsewhere, so only where the call is at hand they are given up.
 */
static void return_here(struct making *m, const struct insn *insn, uint64_t to)
{
	uint32_t dead = m->is_hot ? liveness_dead(to) : 0;
	uint32_t flags_dead = m->calls ? dead & LIVENESS_FLAGS : 0;
	struct way_out *out;
	const uint8_t *other;

	block_add(m, insn);
	block_end(m, TRAIL_RETURN, 0);
	out = out_add(m, EXIT_RETURN, 0);
	out->pops = insn->pops;
	m->blocks--;
	other = astray(m, out);
	if (flags_dead) {
		m->hot = emit_bytes(m->hot, "\x81\x3c\x24", 3); /* cmpl $to, (%rsp) */
		m->hot = emit_32(m->hot, (uint32_t)to);
		piece_end(m, insn->bytes, 0);
		m->hot = emit_relative(emit_bytes(m->hot, "\x0f\x85", 2), other); /* jne */
		beside(m, PIECE_FLAGS_LOST);
	} else {
		m->hot = emit_save(m->hot, RCX, THREAD_SCRATCH);
		beside(m, 0);
		m->hot = emit_bytes(m->hot, "\x8b\x0c\x24", 3);
		piece_end(m, insn->bytes, PIECE_SPILLED);
		m->hot = emit_bytes(m->hot, "\x8d\x89", 2); /* lea -to(%rcx), %ecx */
		m->hot = emit_32(m->hot, -(uint32_t)to);
		m->hot = emit_bytes(m->hot, "\xe3\x0e", 2); /* jrcxz */
		m->hot = emit_load(m->hot, RCX, THREAD_SCRATCH);
		m->hot = emit_jump(m->hot, other);
		if (!(dead & 1u << RCX))
			m->hot = emit_load(m->hot, RCX, THREAD_SCRATCH);
		beside(m, PIECE_SPILLED);
	}
	m->hot = emit_drop(m->hot, 8 + insn->pops);
	beside(m, PIECE_FLAGS_LOST);
	m->blocks++;
	if (m->calls)
		m->calls--;
	go_on(m, to);
}

static void returns(struct making *m, const struct insn *insn)
{
	uint64_t to = m->calls ? m->returns[m->calls - 1] : m->is_hot ? profile_sure(m->start) : 0;

	swap_in(m);
	if (to && !map_is_shared(to) && (m->calls || (fits(m, to) && is_near(m, to))))
		return_here(m, insn, to);
	else
		return_any(m, insn);
}

/* The operand of an indirect branch, in rcx. Its prefixes other than the segment's and the address size's are dropped. */
static void operand_load(struct making *m, const struct insn *insn, const uint8_t *code)
{
	uint8_t modrm = code[insn->modrm_at];
	uint32_t rest = insn->bytes - insn->modrm_at - 1u;

	if (insn->segment)
		m->hot = emit_8(m->hot, insn->segment);
	if (insn->is_short_address)
		m->hot = emit_8(m->hot, 0x67);
	m->hot = emit_8(m->hot, (uint8_t)(0x48 | (insn->rex & 3)));
	m->hot = emit_8(m->hot, 0x8b);
	m->hot = emit_8(m->hot, (uint8_t)((modrm & 0xc7) | RCX << 3));
	if (insn->disp_at) {
		int32_t disp;

		memory_copy(&disp, code + insn->disp_at, 4);
		m->hot = emit_relative(m->hot,
				       (void *)(m->pc + insn->bytes + (uint64_t)(int64_t)disp));
	} else {
		m->hot = emit_bytes(m->hot, code + insn->modrm_at + 1, rest);
	}
}

/* An indirect branch's operand in a register: rsp does not count, for a call changes it. */
static int is_by_register(const struct insn *insn, uint8_t modrm)
{
	return modrm >= 0xc0 && ((modrm & 7u) != RSP || insn->rex & 1);
}

/* Where it leads, in rcx, its upper half 0. */
static void operand_take(struct making *m, const struct insn *insn, const uint8_t *code)
{
	uint8_t modrm = code[insn->modrm_at];

	if (is_by_register(insn, modrm)) { /* mov %reg, %ecx */
		if (insn->rex & 1)
			m->hot = emit_8(m->hot, 0x41);
		m->hot = emit_8(emit_8(m->hot, 0x8b), (uint8_t)(0xc0 | RCX << 3 | (modrm & 7)));
		return;
	}
	operand_load(m, insn, code);
	m->hot = emit_save(m->hot, RCX, THREAD_TARGET);
}

static struct way_out *indirect_out(struct making *m, const struct insn *insn, uint8_t modrm)
{
	struct way_out *out = out_add(m, is_by_register(insn, modrm) ? EXIT_REGISTER : EXIT_MEMORY,
				      0);

	out->reg = (uint8_t)((modrm & 7u) | (insn->rex & 1u) << 3);
	return out;
}

static void indirect_any(struct making *m, const struct insn *insn, const uint8_t *code)
{
	struct way_out *out;

	m->blocks++; /* the exit's path has this block */
	out = indirect_out(m, insn, code[insn->modrm_at]);
	m->blocks--;
	put_indirect(m, out);
	if (insn->needs & 1u << RCX)
		m->hot = emit_load(m->hot, RCX, THREAD_SCRATCH);
	beside(m, PIECE_SPILLED | PIECE_RECORDED);
	operand_take(m, insn, code);
	if (insn->kind == TRAIL_CALL_INDIRECT)
		push(m, m->pc + insn->bytes);
	piece_end(m, insn->bytes, PIECE_SPILLED | PIECE_RECORDED);
	if (out->kind == EXIT_MEMORY)
		m->hot = emit_bytes(m->hot, "\x89\xc9", 2); /* mov %ecx, %ecx */
	m->hot = map_emit_jump(m->hot);
	beside(m, PIECE_SPILLED);
	block_add(m, insn);
	block_end(m, insn->kind, 0);
	m->is_over = 1;
}

/* What comes where it does not lead where it mostly does. */
static const uint8_t *elsewhere(struct making *m, const struct way_out *out)
{
	const uint8_t *at = m->cold;

	m->cold = put_by(m, m->cold, out, RCX);
	if (out->kind == EXIT_MEMORY || out->reg == RCX) {
		m->cold = emit_load(m->cold, RCX,
				    out->kind == EXIT_MEMORY ? THREAD_TARGET : THREAD_SCRATCH);
		m->cold = emit_bytes(m->cold, "\x89\xc9", 2);
	} else {
		if (out->reg >> 3)
			m->cold = emit_8(m->cold, 0x41);
		m->cold = emit_8(emit_8(m->cold, 0x8b),
				 (uint8_t)(0xc0 | RCX << 3 | (out->reg & 7)));
	}
	m->cold = map_emit_jump(m->cold);
	return at;
}

/* rcx is kept, and holds where to: on, if that is `to`. */
static void guess_check(struct making *m, uint64_t to, const uint8_t *other)
{
	m->hot = emit_bytes(m->hot, "\x8d\x89", 2); /* lea -to(%rcx), %ecx */
	m->hot = emit_32(m->hot, -(uint32_t)to);
	m->hot = emit_bytes(m->hot, "\xe3\x05", 2); /* jrcxz */
	m->hot = emit_jump(m->hot, other);
	if (!(liveness_dead(to) & 1u << RCX))
		m->hot = emit_load(m->hot, RCX, THREAD_SCRATCH);
	beside(m, PIECE_SPILLED);
}

static void indirect_guess(struct making *m, const struct insn *insn, const uint8_t *code,
			   uint64_t to)
{
	struct way_out *out;

	m->hot = emit_save(m->hot, RCX, THREAD_SCRATCH);
	beside(m, 0);
	operand_take(m, insn, code);
	if (insn->kind == TRAIL_CALL_INDIRECT)
		push(m, m->pc + insn->bytes);
	piece_end(m, insn->bytes, PIECE_SPILLED);
	m->blocks++;
	out = indirect_out(m, insn, code[insn->modrm_at]);
	m->blocks--;
	guess_check(m, to, elsewhere(m, out));
	block_add(m, insn);
	block_end(m, insn->kind, 0);
	go_on(m, to);
}

static void indirect(struct making *m, const struct insn *insn, const uint8_t *code)
{
	uint64_t to = m->is_hot ? profile_sure(m->start) : 0;
	uint64_t next = m->pc + insn->bytes;

	swap_in(m);
	if (insn->kind == TRAIL_CALL_INDIRECT)
		map_known(next);
	if (!to || map_is_shared(to) || !fits(m, to) || !is_near(m, to)) {
		indirect_any(m, insn, code);
		return;
	}
	if (insn->kind == TRAIL_CALL_INDIRECT)
		returns_to(m, next);
	indirect_guess(m, insn, code, to);
}

static void system_call(struct making *m, const struct insn *insn)
{
	struct way_out *out;

	swap_in(m);
	block_add(m, insn);
	block_end(m, TRAIL_SYSCALL, 0);
	out = out_add(m, EXIT_SYSCALL, m->pc);
	m->hot = put_by(m, m->hot, out, RCX); /* the call would write rcx */
	m->hot = gate_jump(m->hot, &m->area->head->gate_syscall);
	m->blocks--;
	beside(m, 0);
	m->blocks++;
	m->is_over = 1;
}

static void refused(struct making *m)
{
	struct way_out *out;

	swap_in(m);
	if (m->in_block)
		block_end(m, TRAIL_FALL, 0);
	out = out_add(m, EXIT_REFUSED, m->pc);
	m->hot = emit_save(m->hot, RAX, THREAD_SCRATCH);
	m->hot = put_by(m, m->hot, out, RAX);
	m->hot = emit_load(m->hot, RAX, THREAD_SCRATCH);
	m->hot = gate_jump(m->hot, &m->area->head->gate_refused);
	beside(m, 0);
	m->is_over = 1;
}

/* Not here; a trace that begins with it may have it in reach, or be made where it is. */
static void cannot(struct making *m, const struct insn *insn, const uint8_t *code)
{
	int32_t disp;

	if (m->instructions) {
		end_here(m);
	} else if (m->is_moved || !insn->disp_at || insn->is_short_address ||
		   insn->traits & INSN_GS) {
		refused(m);
	} else {
		memory_copy(&disp, code + insn->disp_at, 4);
		m->unreached = m->pc + insn->bytes + (uint64_t)(int64_t)disp;
		m->is_over = 1;
	}
}

/* ud2, int3, hlt: what happens, happens there; and may come back behind. */
static void stop(struct making *m, const struct insn *insn, const uint8_t *code)
{
	swap_in(m);
	m->hot = emit_bytes(m->hot, code, insn->bytes);
	piece_end(m, insn->bytes, 0);
	block_add(m, insn);
	block_end(m, TRAIL_STOP, 0);
	out_hot(m, out_add(m, EXIT_DIRECT, m->pc));
}

/* ---- what only goes on ---- */

/*
 * Whether the function that runs may return elsewhere than to its call in this trace: what is compared there costs the flags, which
 * somebody may want then. Told by what functions that do so mostly do; `add $n, 8(%rsp)` deeper in one is not seen.
 */
static int is_astray(const struct making *m, const struct insn *insn, const uint8_t *code)
{
	uint8_t opcode = code[insn->opcode_at];
	int is_plain = insn->opcode_at == !!insn->rex;

	if (insn->traits & INSN_POPS_FLAGS)
		return 1;
	if (insn->kills & 1u << RSP)
		return insn->needs != 1u << RBP; /* leave, mov %rbp, %rsp */
	if (!(insn->needs & 1u << RSP))
		return 0;
	if (is_plain && (opcode == XCHG || opcode == XCHG_RAX))
		return 1;
	if (!m->is_called)
		return 0;
	if (is_plain && (opcode & 0xf8) == POP)
		return 1;
	return opcode != LEA && insn->modrm_at && (code[insn->modrm_at] & 0xc7) == 0x04 &&
	       code[insn->modrm_at + 1] == 0x24; /* (%rsp) */
}

static void copy(struct making *m, const struct insn *insn, const uint8_t *code)
{
	uint8_t *at;

	if (insn->traits & (INSN_VECTOR15 | INSN_VECTORS))
		swap_out(m);
	if (insn->traits & INSN_ZEROUPPER) {
		if (!m->is_swapped)
			m->hot = vector_zero_upper(m->hot, width);
		beside(m, 0);
	}
	at = m->hot;
	m->hot = emit_bytes(m->hot, code, insn->bytes);
	if (insn->disp_at) {
		int32_t disp;

		memory_copy(&disp, code + insn->disp_at, 4);
		disp += (int32_t)(m->pc - (uint64_t)at);
		memory_copy(at + insn->disp_at, &disp, 4);
	}
	if (m->calls && is_astray(m, insn, code))
		m->calls = 0;
	if ((insn->needs | insn->kills) & 1u << RSP)
		m->is_called = 0;
	piece_end(m, insn->bytes, 0);
	block_add(m, insn);
	if (m->in_block < TRAIL_BLOCK_INSTRUCTIONS_MAX)
		return;
	swap_in(m);
	block_end(m, TRAIL_FALL, 0);
	go_on(m, m->pc);
}

static int can_copy(const struct making *m, const struct insn *insn, const uint8_t *code)
{
	int32_t disp;

	if (insn->traits & INSN_GS)
		return 0;
	if (!insn->disp_at)
		return 1;
	memory_copy(&disp, code + insn->disp_at, 4);
	return !insn->is_short_address &&
	       is_in_reach(m->hot, m->pc + insn->bytes + (uint64_t)(int64_t)disp);
}

/*
 * Code that can be written is guarded from now on, so that what is read stays true; or told to be changed too often for that. 1: a
 * trace that has begun does not go on there.
 */
static int guard(struct making *m, uint64_t left)
{
	uint64_t last = m->pc + (left < INSN_BYTES_MAX ? left : INSN_BYTES_MAX) - 1;

	for (uint64_t page = m->pc & ~UINT64_C(4095); page <= last; page += 4096) {
		enum page_state state;

		if (page == m->guarded)
			continue;
		state = pages_guard(page);
		if (state != PAGE_GUARDED) {
			if (m->instructions)
				return 1;
			m->is_checked = 1;
			m->most_blocks = 1;
			m->most_instructions = state == PAGE_WRITES_ITSELF
						       ? 1
						       : CHECKED_INSTRUCTIONS_MAX;
		}
		m->guarded = page;
	}
	return 0;
}

/* The program's code; what may change meanwhile as it was when it was read first. */
static const uint8_t *code_at(struct making *m, uint64_t pc, uint64_t *left)
{
	uint64_t at = pc - m->copied_from;

	if (!m->is_checked)
		return (const uint8_t *)pc;
	if (!m->copied) {
		m->copied_from = pc;
		m->copied = *left < COPIED_MAX ? (uint32_t)*left : COPIED_MAX;
		if (gate_copy(m->copy, (const void *)pc, m->copied))
			m->copied = 0;
		m->unreached = 0;
		at = 0;
	}
	if (at >= m->copied)
		*left = 0;
	else if (*left > m->copied - at)
		*left = m->copied - at;
	return m->copy + at;
}

static void one(struct making *m)
{
	uint64_t left = ranges_left(m->pc);
	const uint8_t *code;
	struct insn insn;

	if (left && guard(m, left)) {
		end_here(m);
		return;
	}
	code = code_at(m, m->pc, &left);
	if (!left || insn_decode(&insn, code, left, m->pc, is_amd)) {
		if (m->in_block)
			end_here(m);
		else
			refused(m);
		return;
	}
	switch (insn.kind) {
	case TRAIL_FALL:
		if (!can_copy(m, &insn, code))
			cannot(m, &insn, code);
		else if (m->instructions >= m->most_instructions)
			end_here(m);
		else
			copy(m, &insn, code);
		return;
	case TRAIL_JUMP:
		jump(m, &insn);
		return;
	case TRAIL_BRANCH:
		if (insn.traits & INSN_TRANSACTION)
			refused(m);
		else
			branch(m, &insn, code);
		return;
	case TRAIL_CALL:
		call(m, &insn);
		return;
	case TRAIL_RETURN:
		returns(m, &insn);
		return;
	case TRAIL_JUMP_INDIRECT:
	case TRAIL_CALL_INDIRECT:
		if (can_copy(m, &insn, code))
			indirect(m, &insn, code);
		else
			cannot(m, &insn, code);
		return;
	case TRAIL_SYSCALL:
		/* int $0x80 has other numbers, and other registers. */
		if (code[insn.opcode_at] == SYSCALL)
			system_call(m, &insn);
		else
			cannot(m, &insn, code);
		return;
	case TRAIL_STOP:
		stop(m, &insn, code);
		return;
	default:
		refused(m);
	}
}

/* ---- all of it ---- */

/* In the log, before any id of it can be in a segment. */
static void tell(const struct making *m)
{
	struct engine_trace *trace;
	uint32_t bytes = (uint32_t)sizeof(*trace);
	uint8_t *at;

	for (uint32_t i = 0; i < m->blocks; i++)
		bytes += (uint32_t)sizeof(m->entries[i]) + ((m->entries[i].bytes + 7u) & ~7u);
	bytes += m->out_count * 2;
	trace = log_begin(ENGINE_ENTRY_TRACE, bytes);
	if (!trace)
		return;
	trace->first_id = m->first_id;
	trace->exits = (uint16_t)m->out_count;
	trace->blocks = (uint16_t)m->blocks;
	at = (uint8_t *)(trace + 1);
	for (uint32_t i = 0; i < m->blocks; i++) {
		at = emit_bytes(at, &m->entries[i], sizeof(m->entries[i]));
		memory_copy(at, m->is_checked ? m->copy : (const uint8_t *)m->starts[i],
			    m->entries[i].bytes);
		at += (m->entries[i].bytes + 7u) & ~7u;
	}
	for (uint32_t i = 0; i < m->out_count; i++)
		at = emit_bytes(at, &m->outs[i].blocks, 2);
	log_end();
}

/* Ids in the code are relative to those of no trace until this one has its own: made twice would cost more. */
static struct trace *keep(struct making *m, struct trace *trace)
{
	uint64_t *starts = memory_get(m->blocks * sizeof(*starts) + 8);
	struct piece *pieces = memory_get(m->piece_count * sizeof(*pieces) + 8);

	if (!starts || !pieces)
		return NULL;
	memory_copy(starts, m->starts, m->blocks * sizeof(*starts));
	memory_copy(pieces, m->pieces, m->piece_count * sizeof(*pieces));
	trace->starts = starts;
	trace->pieces = pieces;
	trace->piece_count = m->piece_count;
	trace->blocks = (uint16_t)m->blocks;
	trace->exits = (uint16_t)m->out_count;
	if (m->is_checked) {
		uint8_t *code = memory_get(m->copied + 8u);

		if (!code)
			return NULL;
		trace->is_checked = 1;
		trace->code_bytes = m->blocks ? m->entries[0].bytes : 0;
		memory_copy(code, m->copy, trace->code_bytes);
		trace->code = code;
	}
	for (uint32_t i = 0; i < m->out_count; i++) {
		struct exit *exit = exit_of(m->first_id + i);

		*exit = (struct exit){
			.target = m->outs[i].target,
			.jump = m->outs[i].jump,
			.trace = trace_number(trace),
			.pops = m->outs[i].pops,
			.blocks = m->outs[i].blocks,
			.kind = m->outs[i].kind,
			.reg = m->outs[i].reg,
		};
	}
	return trace;
}

static void begin(struct making *m, struct cache_area *area, const struct trace *trace)
{
	uint64_t pc = trace->pc;

	m->area = area;
	m->hot = m->piece_from = area->hot;
	m->cold = area->cold;
	m->blocks = m->instructions = m->in_block = m->out_count = m->piece_count = m->calls = 0;
	m->is_called = 0;
	m->is_swapped = m->is_over = m->is_checked = 0;
	m->copied = 0;
	m->guarded = 1;
	m->is_hot = trace->layouts != 0;
	m->most_blocks = m->is_hot ? TRACE_BLOCKS_MAX : COLD_BLOCKS_MAX;
	m->most_instructions = TRACE_INSTRUCTIONS_MAX;
	m->first_id = trace->first_exit;
	block_begin(m, pc);
	if (!m->is_hot || !(liveness_dead(pc) & 1u << RCX))
		m->hot = emit_load(m->hot, RCX, THREAD_SCRATCH);
	m->head = m->piece_from = m->hot;
}

/* Whether the code is still what was translated. */
static int is_true(const struct trace *trace)
{
	uint8_t code[COPIED_MAX];

	if (!trace->is_checked)
		return 1;
	if (ranges_left(trace->pc) < trace->code_bytes ||
	    gate_copy(code, (const void *)trace->pc, trace->code_bytes))
		return 0;
	for (uint32_t i = 0; i < trace->code_bytes; i++)
		if (code[i] != trace->code[i])
			return 0;
	return !pages_are_calm(trace->pc, trace->pc + trace->code_bytes);
}

/* So that a change of its code is its end. */
static void watch(const struct making *m, const struct trace *trace)
{
	for (uint32_t i = 0; i < m->blocks; i++) {
		uint64_t last = m->starts[i] + m->entries[i].bytes - 1;

		for (uint64_t page = m->starts[i] & ~UINT64_C(4095); page <= last; page += 4096)
			pages_add(page, trace);
	}
}

static void fill(struct making *m, struct cache_area *area, const struct trace *trace)
{
	memory_ready(&area->hot_ready, area->hot + READY_AHEAD);
	memory_ready(&area->cold_ready, area->cold + READY_AHEAD);
	begin(m, area, trace);
	while (!m->is_over)
		one(m);
}

/* NULL: no memory. */
static struct trace *make(uint64_t pc, unsigned int layouts)
{
	struct making *m = &making;
	struct cache_area *area = cache_area_for(pc);
	struct trace *trace = area ? trace_add(pc, TRACE_EXITS_MAX) : NULL;

	if (!trace)
		return NULL;
	trace->layouts = (uint8_t)layouts;
	m->is_moved = 0;
	fill(m, area, trace);
	if (m->unreached) {
		struct cache_area *other = cache_area_between(pc, m->unreached);

		area = other ? other : area;
		m->is_moved = 1;
		fill(m, area, trace);
	}
	if (!keep(m, trace))
		return NULL;
	trace->landing = area->hot;
	trace->head = m->head;
	trace->end = m->hot;
	trace->cold = area->cold;
	trace->cold_end = m->cold;
	area->hot = m->hot;
	area->cold = m->cold;
	trace_publish(trace);
	tell(m);
	watch(m, trace);
	if (!trace->is_checked)
		map_set(pc, (uint64_t)trace->landing);
	for (uint32_t i = 0; i < m->out_count; i++) {
		struct exit *exit = exit_of(m->first_id + i);
		struct trace *to = exit->jump ? trace_at(exit->target) : NULL;

		if (to)
			translate_link(exit, to);
	}
	channel.head->traces++;
	channel.head->translated_blocks += m->blocks;
	return trace;
}

struct trace *translate(uint64_t pc, int *error)
{
	struct trace *trace;

	traces_turn();
	trace = trace_at(pc);
	if (trace && is_true(trace))
		return trace;
	if (trace)
		trace_kill(trace);
	*error = -EFAULT;
	if (!ranges_left(pc))
		return NULL;
	*error = -ENOMEM;
	return make(pc, 0);
}

struct trace *translate_hot(struct trace *old)
{
	uint32_t id = old->incoming, next;
	struct trace *trace;

	if (!ranges_left(old->pc))
		return NULL;
	trace = make(old->pc, old->layouts + 1u);
	if (!trace)
		return NULL;
	/* Who came to the old one comes here. */
	old->is_dead = 1;
	old->incoming = 0;
	for (; id; id = next) {
		struct exit *exit = exit_of(id);

		next = exit->next;
		exit->next = 0;
		cache_jump_set(exit->jump, cache_exit_jump(exit->jump));
		translate_link(exit, trace);
	}
	return trace;
}

void translate_link(struct exit *exit, struct trace *to)
{
	if (exit->jump && exit_number(exit) && !exit->next && !to->is_checked &&
	    *(int32_t *)exit->jump == (int32_t)(cache_exit_jump(exit->jump) - exit->jump - 4) &&
	    !cache_jump_set(exit->jump, to->head))
		trace_incoming(to, exit_number(exit));
}
