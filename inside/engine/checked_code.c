/* SPDX-License-Identifier: MIT */
#include "inside/engine/checked_code.h"

#include "inside/engine/assembler.h"
#include "inside/engine/cache.h"
#include "inside/engine/engine_memory.h"
#include "inside/engine/engine_thread.h"
#include "inside/engine/pages.h"
#include "inside/engine/ranges.h"

int checked_code_holds(const struct trace *trace, struct code_read *read)
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

int checked_code_is_due(struct making *m)
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

void checked_code_emit(struct making *m)
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
