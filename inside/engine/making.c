/* SPDX-License-Identifier: MIT */
#include "inside/engine/assembler.h"
#include "inside/engine/cache.h"
#include "inside/engine/engine_thread.h"
#include "inside/engine/liveness.h"
#include "inside/engine/making.h"
#include "inside/engine/ranges.h"

_Static_assert(MAKING_PIECES_MAX == ENGINE_CODE_PIECES_MAX, "as abi/engine_code.h has it");

#define UNROLL_MAX 8u
#define UNROLL_INSTRUCTIONS_MAX 160u

/* Registers that vector_put() can go by. */
#define PUT_REGISTERS 0xcfcfu

/*
 * Kept in memory meanwhile: one that is seldom wanted at once, for it takes some cycles to come
 * back.
 */
#define KEPT_REGISTER R11

/* ---- pieces ---- */

void making_piece_end(struct making *m, unsigned int program_bytes, unsigned int flags)
{
	if (m->piece_count == MAKING_PIECES_MAX)
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
void making_beside(struct making *m, unsigned int flags)
{
	if (m->hot != m->piece_from)
		making_piece_end(m, 0, flags);
}

void making_swap_out(struct making *m)
{
	if (m->is_swapped)
		return;
	m->hot = vector_give(m->hot, m->width);
	making_beside(m, 0);
	m->is_swapped = 1;
}

void making_swap_in(struct making *m)
{
	if (!m->is_swapped)
		return;
	m->hot = vector_take(m->hot, m->width);
	making_beside(m, 0);
	m->is_swapped = 0;
}

/* ---- blocks and exits ---- */

void making_block_add(struct making *m, const struct insn *insn)
{
	m->last = (uint32_t)(m->pc - m->start);
	m->in_block++;
	m->instructions++;
	m->pc += insn->bytes;
}

void making_block_end(struct making *m, unsigned int kind, uint64_t target)
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

void making_block_begin(struct making *m, uint64_t pc)
{
	m->pc = m->start = pc;
}

/*
 * Whether a block may come next for what is in the trace already. In a hot trace it may come again,
 * which unrolls a loop, as long as another turn fits.
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

struct way_out *making_out_add(struct making *m, enum exit_kind kind, uint64_t target)
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

uint8_t *making_put(struct making *m, uint8_t *at, const struct way_out *out, unsigned int reg)
{
	return vector_put(at, m->width, out_id(m, out), reg, m->area->head->steps[out->blocks]);
}

/* Put the id by a register that `target` does not need, or one that is kept meanwhile. */
static uint8_t *put_for(struct making *m, uint8_t *at, const struct way_out *out)
{
	uint32_t dead = m->is_hot ? liveness_dead(m->read, out->target) & PUT_REGISTERS : 0;

	if (dead)
		return making_put(m, at, out, (unsigned int)__builtin_ctz(dead));
	at = emit_save(at, KEPT_REGISTER, THREAD_SCRATCH);
	at = making_put(m, at, out, KEPT_REGISTER);
	return emit_load(at, KEPT_REGISTER, THREAD_SCRATCH);
}

/*
 * The id, and a jump that is linked when it is first taken: its displacement within eight bytes
 * that are changed at once.
 */
static uint8_t *direct(struct making *m, uint8_t *at, struct way_out *out)
{
	at = put_for(m, at, out);
	while (((uintptr_t)at + 1) % 8 > 4)
		at = emit_8(at, 0x90);
	at = emit_8(at, 0xe9);
	out->jump = at;
	return emit_relative(at, m->area->head->exit_jump);
}

void making_out_hot(struct making *m, struct way_out *out)
{
	m->hot = direct(m, m->hot, out);
	making_beside(m, 0);
	m->is_over = 1;
}

const uint8_t *making_out_cold(struct making *m, struct way_out *out)
{
	const uint8_t *at = m->cold;

	m->cold = direct(m, m->cold, out);
	out->cold_bytes = (uint16_t)(out->jump - at);
	return at;
}

void making_put_kept(struct making *m, struct way_out *out)
{
	m->hot = emit_save(m->hot, RCX, THREAD_SCRATCH);
	making_beside(m, 0);
	m->hot = making_put(m, m->hot, out, RCX);
	making_beside(m, PIECE_SPILLED);
}

void making_push(struct making *m, uint64_t value)
{
	if ((uint64_t)(int64_t)(int32_t)value == value) {
		m->hot = emit_32(emit_8(m->hot, 0x68), (uint32_t)value);
		return;
	}
	m->cold = (uint8_t *)(((uintptr_t)m->cold + 7) & ~(uintptr_t)7);
	m->hot = emit_relative(emit_bytes(m->hot, "\xff\x35", 2), m->cold);
	m->cold = emit_64(m->cold, value);
}

/* ---- where the trace continues ---- */

static int has_room(const struct making *m)
{
	return m->blocks < m->most_blocks && m->instructions < m->most_instructions &&
	       m->out_count + 3 < TRACE_EXITS_MAX;
}

int making_fits(const struct making *m, uint64_t pc)
{
	return has_room(m) && may_come(m, pc) && ranges_left(pc);
}

int making_is_near(const struct making *m, uint64_t pc)
{
	return cache_is_near(m->area, pc);
}

void making_go_on(struct making *m, uint64_t pc)
{
	if (making_fits(m, pc))
		making_block_begin(m, pc);
	else
		making_out_hot(m, making_out_add(m, EXIT_DIRECT, pc));
}

void making_returns_to(struct making *m, uint64_t next)
{
	m->is_called = 1;
	if (m->calls < MAKING_CALLS_MAX)
		m->returns[m->calls++] = next;
	else
		m->calls = 0;
}
