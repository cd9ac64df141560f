/* SPDX-License-Identifier: MIT */
#include "inside/engine/assembler.h"
#include "inside/engine/cache.h"
#include "inside/engine/constant.h"
#include "inside/engine/end.h"
#include "inside/engine/engine_memory.h"
#include "inside/engine/engine_thread.h"
#include "inside/engine/liveness.h"
#include "inside/engine/map.h"
#include "inside/engine/profile.h"
#include "inside/engine/ranges.h"

void end_here(struct making *m)
{
	making_swap_in(m);
	if (m->in_block)
		making_block_end(m, TRAIL_FALL, 0);
	making_out_hot(m, making_out_add(m, EXIT_DIRECT, m->pc));
}

void end_jump(struct making *m, const struct insn *insn)
{
	making_swap_in(m);
	making_piece_end(m, insn->bytes, 0); /* no code: it is gone */
	making_block_add(m, insn);
	making_block_end(m, TRAIL_JUMP, insn->target);
	making_go_on(m, insn->target);
}

/*
 * A conditional jump, or one that only knows short displacements, to `to`; of the condition's
 * opposite if is_not.
 */
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

void end_branch(struct making *m, const struct insn *insn, const uint8_t *code)
{
	uint64_t next = m->pc + insn->bytes;
	uint64_t likely = m->is_hot ? profile_next(m->start) : 0;
	int is_known = likely == next || likely == insn->target;
	int is_taken = is_known ? likely == insn->target : insn->target <= m->pc;
	struct way_out *side;

	making_swap_in(m);
	making_block_add(m, insn);
	making_block_end(m, TRAIL_BRANCH, insn->target);
	side = making_out_add(m, EXIT_DIRECT, is_taken ? next : insn->target);
	m->blocks--; /* for the piece */
	condition(m, insn, code, is_taken, making_out_cold(m, side));
	making_piece_end(m, insn->bytes, 0);
	m->blocks++;
	if (is_taken && !is_known)
		making_out_hot(m, making_out_add(m, EXIT_DIRECT, insn->target));
	else
		making_go_on(m, is_taken ? insn->target : next);
}

void end_call(struct making *m, const struct insn *insn)
{
	uint64_t next = m->pc + insn->bytes;

	making_swap_in(m);
	making_push(m, next);
	making_piece_end(m, insn->bytes, 0);
	making_block_add(m, insn);
	making_block_end(m, TRAIL_CALL, insn->target);
	map_known(next);
	making_returns_to(m, next);
	making_go_on(m, insn->target);
}

/* The exit of a return. Its block is not in the trace, unless the trace continues behind it. */
static struct way_out *return_out(struct making *m, const struct insn *insn)
{
	struct way_out *out;

	making_block_add(m, insn);
	making_block_end(m, TRAIL_RETURN, 0);
	out = making_out_add(m, EXIT_RETURN, 0);
	out->pops = insn->pops;
	m->blocks--;
	return out;
}

static void return_any(struct making *m, const struct insn *insn)
{
	struct way_out *out = return_out(m, insn);

	making_put_kept(m, out);
	m->hot = emit_bytes(m->hot, "\x8b\x0c\x24", 3); /* mov (%rsp), %ecx */
	making_piece_end(m, insn->bytes, PIECE_SPILLED | PIECE_RECORDED);
	m->hot = emit_drop(m->hot, 8 + insn->pops);
	m->hot = map_emit_jump(m->hot);
	making_beside(m, PIECE_SPILLED);
	m->blocks++;
	m->is_over = 1;
}

/* Code for a return in the trace that does not go back to its call. */
static const uint8_t *astray(struct making *m, struct way_out *out)
{
	const uint8_t *at = m->cold;

	m->cold = emit_save(m->cold, RCX, THREAD_SCRATCH);
	m->cold = making_put(m, m->cold, out, RCX);
	m->cold = emit_bytes(m->cold, "\x8b\x0c\x24", 3);
	m->cold = emit_drop(m->cold, 8 + out->pops);
	m->cold = map_emit_jump(m->cold);
	return at;
}

/*
 * A return to where it most likely goes, back to a call that is in the trace itself, or by the
 * profile: looked at, and passed. Flags that no return to there needs may be needed elsewhere, so
 * only where the call is at hand they are given up.
 */
static void return_here(struct making *m, const struct insn *insn, uint64_t to)
{
	uint32_t dead = m->is_hot ? liveness_dead(m->read, to) : 0;
	uint32_t flags_dead = m->calls ? dead & LIVENESS_FLAGS : 0;
	const uint8_t *other = astray(m, return_out(m, insn));

	if (flags_dead) {
		m->hot = emit_bytes(m->hot, "\x81\x3c\x24", 3); /* cmpl $to, (%rsp) */
		m->hot = emit_32(m->hot, (uint32_t)to);
		making_piece_end(m, insn->bytes, 0);
		m->hot = emit_relative(emit_bytes(m->hot, "\x0f\x85", 2), other); /* jne */
		making_beside(m, 0);
	} else {
		m->hot = emit_save(m->hot, RCX, THREAD_SCRATCH);
		making_beside(m, 0);
		m->hot = emit_bytes(m->hot, "\x8b\x0c\x24", 3);
		making_piece_end(m, insn->bytes, PIECE_SPILLED);
		m->hot = emit_bytes(m->hot, "\x8d\x89", 2); /* lea -to(%rcx), %ecx */
		m->hot = emit_32(m->hot, -(uint32_t)to);
		m->hot = emit_bytes(m->hot, "\xe3\x0e", 2); /* jrcxz */
		m->hot = emit_load(m->hot, RCX, THREAD_SCRATCH);
		m->hot = emit_jump(m->hot, other);
		if (!(dead & 1u << RCX))
			m->hot = emit_load(m->hot, RCX, THREAD_SCRATCH);
		making_beside(m, PIECE_SPILLED);
	}
	m->hot = emit_drop(m->hot, 8 + insn->pops);
	making_beside(m, 0);
	m->blocks++;
	if (m->calls)
		m->calls--;
	making_go_on(m, to);
}

void end_return(struct making *m, const struct insn *insn)
{
	uint64_t to = m->calls ? m->returns[m->calls - 1] : m->is_hot ? profile_sure(m->start) : 0;

	making_swap_in(m);
	if (to && !map_is_shared(to) && (m->calls || (making_fits(m, to) && making_is_near(m, to))))
		return_here(m, insn, to);
	else
		return_any(m, insn);
}

void end_syscall(struct making *m, const struct insn *insn)
{
	struct way_out *out;

	making_swap_in(m);
	making_block_add(m, insn);
	making_block_end(m, TRAIL_SYSCALL, 0);
	out = making_out_add(m, EXIT_SYSCALL, m->pc);
	m->hot = making_put(m, m->hot, out, RCX); /* the call would write rcx */
	m->hot = emit_jump_through(m->hot, &m->area->head->gate_syscall);
	m->blocks--;
	making_beside(m, 0);
	m->blocks++;
	m->is_over = 1;
}

/* Out, to what does not run in translated code. */
static void out_native(struct making *m, enum exit_kind kind, uint64_t target)
{
	struct way_out *out = making_out_add(m, kind, target);

	m->hot = emit_save(m->hot, RAX, THREAD_SCRATCH);
	m->hot = making_put(m, m->hot, out, RAX);
	m->hot = emit_load(m->hot, RAX, THREAD_SCRATCH);
	m->hot = emit_jump_through(m->hot, &m->area->head->gate_refused);
	making_beside(m, 0);
	m->is_over = 1;
}

void end_refused(struct making *m)
{
	making_swap_in(m);
	if (m->in_block)
		making_block_end(m, TRAIL_FALL, 0);
	out_native(m, EXIT_REFUSED, m->pc);
}

void end_native(struct making *m, const struct insn *insn)
{
	uint64_t pc = m->pc;

	making_block_add(m, insn);
	making_block_end(m, insn->kind, insn->target);
	out_native(m, EXIT_NATIVE, pc);
}

void end_unreached(struct making *m, const struct insn *insn, const uint8_t *code)
{
	int32_t disp;

	if (m->instructions) {
		end_here(m);
	} else if (m->is_moved || !insn->disp_at || insn->is_short_address ||
		   insn->traits & INSN_GS) {
		end_refused(m);
	} else {
		memory_copy(&disp, code + insn->disp_at, 4);
		m->unreached = m->pc + insn->bytes + (uint64_t)(int64_t)disp;
		m->is_over = 1;
	}
}

void end_stop(struct making *m, const struct insn *insn, const uint8_t *code)
{
	making_swap_in(m);
	m->hot = emit_bytes(m->hot, code, insn->bytes);
	making_piece_end(m, insn->bytes, 0);
	making_block_add(m, insn);
	making_block_end(m, TRAIL_STOP, 0);
	m->is_hot = 0; /* a trap's handler sees all registers: no dead one carries the id */
	making_out_hot(m, making_out_add(m, EXIT_DIRECT, m->pc));
}

/* ---- jumps and calls whose targets are in registers or in memory ---- */

/*
 * The operand of an indirect branch, in rcx. Its prefixes other than the segment's and the address
 * size's are dropped.
 */
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
	struct way_out *out = making_out_add(
		m, is_by_register(insn, modrm) ? EXIT_REGISTER : EXIT_MEMORY, 0);

	out->reg = (uint8_t)((modrm & 7u) | (insn->rex & 1u) << 3);
	out->pops = insn->kind == TRAIL_CALL_INDIRECT ? 8 : 0;
	return out;
}

static void indirect_any(struct making *m, const struct insn *insn, const uint8_t *code)
{
	struct way_out *out;

	m->blocks++; /* the exit's path has this block */
	out = indirect_out(m, insn, code[insn->modrm_at]);
	m->blocks--;
	making_put_kept(m, out);
	if (insn->needs & 1u << RCX)
		m->hot = emit_load(m->hot, RCX, THREAD_SCRATCH);
	making_beside(m, PIECE_SPILLED | PIECE_RECORDED);
	operand_take(m, insn, code);
	if (insn->kind == TRAIL_CALL_INDIRECT)
		making_push(m, m->pc + insn->bytes);
	making_piece_end(m, insn->bytes, PIECE_SPILLED | PIECE_RECORDED);
	if (out->kind == EXIT_MEMORY)
		m->hot = emit_bytes(m->hot, "\x89\xc9", 2); /* mov %ecx, %ecx */
	m->hot = map_emit_jump(m->hot);
	making_beside(m, PIECE_SPILLED);
	making_block_add(m, insn);
	making_block_end(m, insn->kind, 0);
	m->is_over = 1;
}

/* Code for a branch that does not go to its usual target. */
static const uint8_t *elsewhere(struct making *m, const struct way_out *out)
{
	const uint8_t *at = m->cold;

	m->cold = making_put(m, m->cold, out, RCX);
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
	if (!(liveness_dead(m->read, to) & 1u << RCX))
		m->hot = emit_load(m->hot, RCX, THREAD_SCRATCH);
	making_beside(m, PIECE_SPILLED);
}

static void indirect_guess(struct making *m, const struct insn *insn, const uint8_t *code,
			   uint64_t to)
{
	struct way_out *out;

	m->hot = emit_save(m->hot, RCX, THREAD_SCRATCH);
	making_beside(m, 0);
	operand_take(m, insn, code);
	if (insn->kind == TRAIL_CALL_INDIRECT)
		making_push(m, m->pc + insn->bytes);
	making_piece_end(m, insn->bytes, PIECE_SPILLED);
	m->blocks++;
	out = indirect_out(m, insn, code[insn->modrm_at]);
	m->blocks--;
	guess_check(m, to, elsewhere(m, out));
	making_block_add(m, insn);
	making_block_end(m, insn->kind, 0);
	making_go_on(m, to);
}

/*
 * The target of a branch through memory that no code writes, as between modules. 0: it is no such
 * branch, or the trace does not continue there.
 */
static uint64_t constant_target(struct making *m, const struct insn *insn, const uint8_t *code)
{
	uint64_t from, to;
	int32_t disp;

	if (!insn->disp_at || insn->is_short_address || insn->segment || m->is_checked ||
	    ranges_flags(m->pc) != RANGE_FILE)
		return 0;
	memory_copy(&disp, code + insn->disp_at, 4);
	from = m->pc + insn->bytes + (uint64_t)(int64_t)disp;
	to = constant_at(m->read, from);
	if (!to || !making_fits(m, to) || !making_is_near(m, to))
		return 0;
	m->constants[m->constant_count++] = from;
	return to;
}

static void indirect_constant(struct making *m, const struct insn *insn, uint64_t to)
{
	if (insn->kind == TRAIL_CALL_INDIRECT) {
		making_push(m, m->pc + insn->bytes);
		making_returns_to(m, m->pc + insn->bytes);
	}
	making_piece_end(m, insn->bytes, 0);
	making_block_add(m, insn);
	making_block_end(m, insn->kind, 0);
	making_go_on(m, to);
}

void end_indirect(struct making *m, const struct insn *insn, const uint8_t *code)
{
	uint64_t to = m->is_hot ? profile_sure(m->start) : 0;
	uint64_t next = m->pc + insn->bytes, constant;

	making_swap_in(m);
	if (insn->kind == TRAIL_CALL_INDIRECT)
		map_known(next);
	constant = constant_target(m, insn, code);
	if (constant) {
		indirect_constant(m, insn, constant);
		return;
	}
	if (!to || map_is_shared(to) || !making_fits(m, to) || !making_is_near(m, to)) {
		indirect_any(m, insn, code);
		return;
	}
	if (insn->kind == TRAIL_CALL_INDIRECT)
		making_returns_to(m, next);
	indirect_guess(m, insn, code, to);
}
