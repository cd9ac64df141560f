/* SPDX-License-Identifier: MIT */
#include "arch/insn.h"
#include "inside/engine/assembler.h"
#include "inside/engine/breakpoints.h"
#include "inside/engine/cache.h"
#include "inside/engine/channel.h"
#include "inside/engine/end.h"
#include "inside/engine/engine_memory.h"
#include "inside/engine/engine_thread.h"
#include "inside/engine/gate.h"
#include "inside/engine/liveness.h"
#include "inside/engine/log.h"
#include "inside/engine/making.h"
#include "inside/engine/map.h"
#include "inside/engine/pages.h"
#include "inside/engine/processor.h"
#include "inside/engine/ranges.h"
#include "inside/engine/translate.h"
#include "inside/engine/vector.h"

#include <errno.h>

#define READY_AHEAD 2048u /* most traces are smaller */

/* Opcodes. */
#define SYSCALL 0x05 /* behind 0f */
#define POP 0x58
#define XCHG 0x87
#define XCHG_RAX 0x94 /* rsp */
#define LEA 0x8d
#define INT3 0xcc
#define CALL 0xe8

/* For a trace that is not known to be hot yet. */
#define COLD_BLOCKS_MAX 16u

static struct making making; /* the engine's lock covers it */

/* ---- instructions that end no block ---- */

/*
 * Whether the function that runs may return elsewhere than to its call in this trace. Comparing at
 * the return destroys the flags, which code may need then. This is a guess from what such functions
 * mostly do. It misses `add $n, 8(%rsp)` deeper in a function.
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
		making_swap_out(m);
	if (insn->traits & INSN_ZEROUPPER) {
		if (!m->is_swapped)
			m->hot = vector_zero_upper(m->hot, m->width);
		making_beside(m, 0);
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
	making_piece_end(m, insn->bytes, 0);
	making_block_add(m, insn);
	if (m->in_block < TRAIL_BLOCK_INSTRUCTIONS_MAX)
		return;
	making_swap_in(m);
	making_block_end(m, TRAIL_FALL, 0);
	making_go_on(m, m->pc);
}

/* The engine makes the address that it stores one of the program's: a trace of its own. */
static void show_x87(struct making *m, const struct insn *insn, const uint8_t *code)
{
	if (m->instructions) {
		end_here(m);
		return;
	}
	m->is_x87_shown = 1;
	copy(m, insn, code);
}

static int is_in_reach(const uint8_t *from, uint64_t to)
{
	int64_t distance = (int64_t)(to - (uint64_t)from);

	return distance > -INT64_C(0x7fff0000) && distance < INT64_C(0x7fff0000);
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
 * Guard writable code from now on, so that what was read stays true; or note that it changes too
 * often for that. 1: a trace that has begun does not continue there.
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
			m->is_open = state == PAGE_OPEN;
			m->most_blocks = 1;
			m->most_instructions = state == PAGE_WRITES_ITSELF
						       ? 1
						       : MAKING_CHECKED_INSTRUCTIONS_MAX;
		}
		m->guarded = page;
	}
	return 0;
}

/*
 * Decode the instruction at m->pc: 0; or -errno as code_read_insn(). All of a checked trace comes
 * from one read.
 */
static int decode(struct making *m, struct insn *insn, uint64_t left, struct code_bytes *bytes)
{
	uint64_t at = m->pc - m->trace_pc, least = 1;
	enum code_use use = !m->instructions	       ? CODE_RUNS
			    : m->in_block || m->is_hot ? CODE_AHEAD
						       : CODE_KNOWN;

	if (!left)
		return -EILSEQ;
	if (!m->is_checked)
		return code_read_insn(m->read, insn, m->pc, left, use, bytes);
	for (;;) {
		bytes->code = code_read_once(m->read, m->trace_pc, left + at, least);
		if (!bytes->code)
			return m->read->bytes ? -EAGAIN : -EFAULT;
		bytes->code += at;
		if (at < m->read->copied && !insn_decode(insn, bytes->code, m->read->copied - at,
							 m->pc, processor_is_amd()))
			return 0;
		if (m->instructions || least == INSN_BYTES_MAX || least == left)
			return -EILSEQ;
		least = left < INSN_BYTES_MAX ? left : INSN_BYTES_MAX; /* on two pages */
	}
}

/* End the trace before m->pc, or begin it again when that has been read. */
static void stop_before(struct making *m, int error)
{
	m->is_over = 1;
	if (m->read->bytes || (error == -EFAULT && !m->instructions))
		m->error = m->read->bytes ? -EAGAIN : -EFAULT;
	else if (m->in_block || error == -EFAULT)
		end_here(m);
	else
		end_refused(m);
}

/* Where the kernel runs it natively, a thread has to see what it would see natively. */
static int can_run_natively(const struct insn *insn)
{
	return insn->kind <= TRAIL_RETURN &&
	       !(insn->traits & (INSN_GS | INSN_TRANSACTION | INSN_PUSHES_FLAGS | INSN_POPS_FLAGS));
}

/*
 * Another tool's in place of the instruction at m->pc: int3, or a call to code that is no
 * program's.
 */
static enum breakpoint_kind breakpoint_of(struct making *m, const struct insn *insn,
					  const uint8_t *code)
{
	enum breakpoint_kind known = breakpoints_at(m->pc);
	uint64_t page = m->pc & ~UINT64_C(4095), bytes = 4096;
	const uint8_t *now;

	if (known != BREAKPOINT_NONE || ranges_flags(m->pc) != RANGE_FILE ||
	    (code[0] != INT3 && (code[0] != CALL || ranges_left(insn->target))))
		return known;
	now = code_read_at(m->read, page, &bytes, CODE_KNOWN);
	known = now ? breakpoints_find(m->pc, now) : BREAKPOINT_UNKNOWN;
	if (known == BREAKPOINT_NEW) {
		code_read_drop(page >> 12);
		code_read_at(m->read, m->pc, &bytes, CODE_RUNS);
	}
	return known;
}

static void one(struct making *m)
{
	uint64_t left = ranges_left(m->pc);
	enum breakpoint_kind breakpoint;
	struct code_bytes bytes;
	const uint8_t *code;
	struct insn insn;
	int err;

	if (left && guard(m, left)) {
		end_here(m);
		return;
	}
	err = decode(m, &insn, left, &bytes);
	if (err) {
		stop_before(m, err);
		return;
	}
	code = bytes.code;
	breakpoint = m->is_checked ? BREAKPOINT_NONE : breakpoint_of(m, &insn, code);
	if (breakpoint != BREAKPOINT_NONE && m->instructions) {
		end_here(m);
		return;
	}
	if (breakpoint == BREAKPOINT_NEW || breakpoint == BREAKPOINT_UNKNOWN) {
		stop_before(m, -EFAULT);
		return;
	}
	if (breakpoint == BREAKPOINT_HERE && can_run_natively(&insn)) {
		end_native(m, &insn);
		return;
	}
	switch (insn.kind) {
	case TRAIL_FALL:
		if (!can_copy(m, &insn, code))
			end_unreached(m, &insn, code);
		else if (m->instructions >= m->most_instructions)
			end_here(m);
		else if (insn.traits & INSN_TELLS_IP)
			show_x87(m, &insn, code);
		else
			copy(m, &insn, code);
		return;
	case TRAIL_JUMP:
		end_jump(m, &insn);
		return;
	case TRAIL_BRANCH:
		if (insn.traits & INSN_TRANSACTION)
			end_refused(m);
		else
			end_branch(m, &insn, code);
		return;
	case TRAIL_CALL:
		end_call(m, &insn);
		return;
	case TRAIL_RETURN:
		end_return(m, &insn);
		return;
	case TRAIL_JUMP_INDIRECT:
	case TRAIL_CALL_INDIRECT:
		if (can_copy(m, &insn, code))
			end_indirect(m, &insn, code);
		else
			end_unreached(m, &insn, code);
		return;
	case TRAIL_SYSCALL:
		/* int $0x80 has other numbers, and other registers. */
		if (code[insn.opcode_at] == SYSCALL)
			end_syscall(m, &insn);
		else
			end_unreached(m, &insn, code);
		return;
	case TRAIL_STOP:
		end_stop(m, &insn, code);
		return;
	default:
		end_refused(m);
	}
}

/*
 * ---- code on pages that no guard protects ----
 *
 * It is compared with what was translated before it runs. The engine does that where a page may be
 * guarded again (PAGE_CHECKED), the trace itself where no write to it will ever be seen
 * (PAGE_OPEN): as of a JIT that writes its code at another address.
 */

/*
 * Whether the trace's code is still what was translated. 0 also where that is to be read first, or
 * where the page may be guarded.
 */
static int checked_code_holds(const struct trace *trace, struct code_read *read)
{
	const uint8_t *code;
	uint64_t left;

	if (!trace->code)
		return 1;
	left = ranges_left(trace->pc);
	code = left < trace->code_bytes ? NULL
					: code_read_once(read, trace->pc, left, trace->code_bytes);
	if (!code)
		return 0;
	for (uint32_t i = 0; i < trace->code_bytes; i++)
		if (code[i] != trace->code[i])
			return 0;
	return !pages_are_calm(trace->pc, trace->pc + trace->code_bytes);
}

/*
 * Whether the trace that has been made is to be made again with a comparison of its code, whose
 * length is known now: m->check_bytes.
 */
static int checked_code_is_due(struct making *m)
{
	if (!m->is_open || m->check_bytes || m->error || !m->blocks || m->is_x87_shown ||
	    m->unreached || !cache_is_near(m->area, m->trace_pc))
		return 0;
	m->check_bytes = m->entries[0].bytes;
	return 1;
}

/*
 * Compare some of the code with what was translated, by rcx: no flag changes. jrcxz leads over the
 * way out, to gate_changed.
 */
static void compare(struct making *m, uint32_t offset, uint32_t bytes, const uint8_t *changed)
{
	static const char loads[][4] = { "", "\x0f\xb6\x0d", "\x0f\xb7\x0d", "", "\x8b\x0d" };
	uint32_t value = 0;

	memory_copy(&value, m->read->copy + offset, bytes);
	m->hot = emit_bytes(m->hot, loads[bytes], bytes == 4 ? 2 : 3); /* mov code, %ecx */
	m->hot = emit_relative(m->hot, (const uint8_t *)m->trace_pc + offset);
	m->hot = emit_bytes(m->hot, "\x8d\x89", 2); /* lea -value(%rcx), %ecx */
	m->hot = emit_32(m->hot, -value);
	m->hot = emit_bytes(m->hot, "\xe3\x05", 2);
	m->hot = emit_jump(m->hot, changed);
	making_beside(m, PIECE_SPILLED | PIECE_CHECKS);
}

/* The comparison, at the trace's head. */
static void checked_code_emit(struct making *m)
{
	const uint8_t *changed = m->cold;
	uint32_t bytes = m->check_bytes, offset = 0;

	m->cold = emit_64(emit_bytes(m->cold, "\x48\xb9", 2), m->trace_pc); /* movabs, %rcx */
	m->cold = emit_jump_through(m->cold, &m->area->head->gate_changed);
	m->hot = emit_save(m->hot, RCX, THREAD_SCRATCH);
	making_beside(m, 0);
	for (; bytes - offset >= 4; offset += 4)
		compare(m, offset, 4, changed);
	if (bytes - offset >= 2) {
		compare(m, offset, 2, changed);
		offset += 2;
	}
	if (bytes - offset)
		compare(m, offset, 1, changed);
	m->hot = emit_load(m->hot, RCX, THREAD_SCRATCH);
	making_beside(m, PIECE_SPILLED);
}

/* ---- all of it ---- */

/* In the log, before any id of it can be in a segment. */
static void report(const struct making *m)
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
		if (m->is_checked)
			memory_copy(at, m->read->copy, m->entries[i].bytes);
		else
			code_read_bytes(m->read, at, m->starts[i], m->entries[i].bytes);
		at += (m->entries[i].bytes + 7u) & ~7u;
	}
	for (uint32_t i = 0; i < m->out_count; i++)
		at = emit_bytes(at, &m->outs[i].blocks, 2);
	log_end();
}

/*
 * Ids in the code are relative to those of no trace until this one has its own: made twice would
 * cost more.
 */
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
		uint8_t *code = memory_get(m->read->copied + 8u);

		if (!code)
			return NULL;
		trace->is_checked = !m->check_bytes;
		trace->code_bytes = m->blocks ? m->entries[0].bytes : 0;
		memory_copy(code, m->read->copy, trace->code_bytes);
		trace->code = code;
	}
	for (uint32_t i = 0; i < m->out_count; i++) {
		struct exit *exit = trace_exit_of(m->first_id + i);

		*exit = (struct exit){
			.target = m->outs[i].target,
			.jump = m->outs[i].jump,
			.trace = trace_number(trace),
			.pops = m->outs[i].pops,
			.blocks = m->outs[i].blocks,
			.kind = m->outs[i].kind,
			.reg = m->outs[i].reg,
			.cold_bytes = m->outs[i].cold_bytes,
		};
	}
	return trace;
}

static void begin(struct making *m, struct cache_area *area, const struct trace *trace)
{
	uint64_t pc = trace->pc;

	m->area = area;
	m->trace_pc = pc;
	m->width = processor_width();
	m->hot = m->piece_from = area->hot;
	m->cold = area->cold;
	m->blocks = m->instructions = m->in_block = m->out_count = m->piece_count = m->calls = 0;
	m->is_called = 0;
	m->is_swapped = m->is_over = m->is_checked = m->is_open = m->is_x87_shown = 0;
	m->constant_count = m->unreached = 0;
	m->error = 0;
	m->guarded = 1;
	m->is_hot = trace->layouts != 0;
	m->most_blocks = m->is_hot ? TRACE_BLOCKS_MAX : COLD_BLOCKS_MAX;
	m->most_instructions = TRACE_INSTRUCTIONS_MAX;
	m->first_id = trace->first_exit;
	making_block_begin(m, pc);
	if (!m->is_hot || !(liveness_dead(m->read, pc) & 1u << RCX))
		m->hot = emit_load(m->hot, RCX, THREAD_SCRATCH);
	m->head = m->piece_from = m->hot;
	if (m->check_bytes)
		checked_code_emit(m);
}

/* So that a change of its code is its end. */
static void watch(const struct making *m, const struct trace *trace)
{
	for (uint32_t i = 0; i < m->blocks; i++) {
		uint64_t last = m->starts[i] + m->entries[i].bytes - 1;

		for (uint64_t page = m->starts[i] & ~UINT64_C(4095); page <= last; page += 4096)
			pages_add(page, trace);
	}
	for (uint32_t i = 0; i < m->constant_count; i++)
		pages_add(m->constants[i], trace);
	/* a guess that leads out at once is by the low half all the same */
	if (m->out_count > 1 && m->outs[m->out_count - 1].kind == EXIT_DIRECT &&
	    m->outs[m->out_count - 2].kind != EXIT_DIRECT)
		pages_add(m->outs[m->out_count - 1].target, trace);
}

static void fill(struct making *m, struct cache_area *area, const struct trace *trace)
{
	memory_ready(&area->hot_ready, area->hot + READY_AHEAD);
	memory_ready(&area->cold_ready, area->cold + READY_AHEAD);
	m->check_bytes = 0;
	do {
		begin(m, area, trace);
		while (!m->is_over && !m->read->bytes)
			one(m);
		if (m->read->bytes)
			m->error = -EAGAIN;
	} while (checked_code_is_due(m));
}

/*
 * NULL and -ENOMEM: no memory; -ERANGE: no free addresses in reach of the code; -ENOEXEC: its first
 * instruction can't be translated; -EFAULT: it can't be read; -EAGAIN: code_read_go().
 */
static struct trace *make(uint64_t pc, unsigned int layouts, struct code_read *read, int *error)
{
	struct making *m = &making;
	struct cache_area *area = cache_area_for(pc);
	struct trace *trace = area ? trace_add(pc, TRACE_EXITS_MAX) : NULL;

	*error = area ? -ENOMEM : -ERANGE;
	if (!trace)
		return NULL;
	trace->layouts = (uint8_t)layouts;
	m->read = read;
	m->is_moved = 0;
	fill(m, area, trace);
	if (m->unreached) {
		struct cache_area *other = cache_area_between(pc, m->unreached);

		*error = -ERANGE;
		if (!other)
			return NULL;
		area = other;
		m->is_moved = 1;
		fill(m, area, trace);
	}
	if (m->error) {
		trace_take_back(trace);
		*error = m->error;
		return NULL;
	}
	if (!m->blocks) { /* the reader takes no id without blocks */
		*error = -ENOEXEC;
		return NULL;
	}
	*error = -ENOMEM;
	if (!keep(m, trace))
		return NULL;
	trace->landing = area->hot;
	trace->head = m->head;
	trace->end = m->hot;
	trace->is_x87_shown = m->is_x87_shown != 0;
	trace->cold = area->cold;
	trace->cold_end = m->cold;
	area->hot = m->hot;
	area->cold = m->cold;
	trace_publish(trace);
	report(m);
	watch(m, trace);
	if (!trace->is_checked && !trace->is_x87_shown)
		map_set(pc, (uint64_t)trace->landing);
	else
		map_known(pc); /* by way of the engine, without a fault each time */
	for (uint32_t i = 0; i < m->out_count; i++) {
		struct exit *exit = trace_exit_of(m->first_id + i);
		struct trace *to = exit->jump ? trace_at(exit->target) : NULL;

		if (to)
			translate_link(exit, to);
	}
	channel.head->traces++;
	return trace;
}

static struct trace *find_or_make(uint64_t pc, struct code_read *read, int *error)
{
	struct trace *trace;

	traces_turn();
	trace = trace_at(pc);
	if (trace && checked_code_holds(trace, read))
		return trace;
	*error = -EAGAIN;
	if (read->bytes)
		return NULL;
	if (trace)
		trace_kill(trace);
	if (ranges_left(pc))
		return make(pc, 0, read, error);
	*error = ranges_are_unreadable() ? -ENODATA : -EFAULT;
	return NULL;
}

struct trace *translate(uint64_t pc, code_reader *reader, int *error)
{
	struct code_read read;
	struct trace *trace;

	code_read_begin(&read, reader);
	do
		trace = find_or_make(pc, &read, error);
	while (!trace && code_read_go(&read));
	if (!trace && *error == -EAGAIN && reader)
		*error = -ENOMEM;
	return trace;
}

struct trace *translate_hot(struct trace *old)
{
	uint64_t generation = traces_newest();
	uint32_t id, next;
	struct code_read read;
	struct trace *trace;
	int error;

	code_read_begin(&read, gate_copy);
	do {
		if (traces_newest() != generation || old->is_dead || !ranges_left(old->pc))
			return NULL;
		trace = make(old->pc, old->layouts + 1u, &read, &error);
	} while (!trace && code_read_go(&read));
	if (!trace)
		return NULL;
	/* Link to the new one the exits that led to the old one. */
	id = old->incoming;
	old->is_dead = 1;
	old->incoming = 0;
	for (; id; id = next) {
		struct exit *exit = trace_exit_of(id);

		next = exit->next;
		exit->next = 0;
		cache_jump_set(exit->jump, cache_exit_jump(exit->jump));
		translate_link(exit, trace);
	}
	return trace;
}

void translate_link(struct exit *exit, struct trace *to)
{
	if (exit->jump && trace_exit_number(exit) && !exit->next && !to->is_checked &&
	    !to->is_x87_shown &&
	    *(int32_t *)exit->jump == (int32_t)(cache_exit_jump(exit->jump) - exit->jump - 4) &&
	    !cache_jump_set(exit->jump, to->head))
		trace_incoming(to, trace_exit_number(exit));
}
