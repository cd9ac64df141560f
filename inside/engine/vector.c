/* SPDX-License-Identifier: MIT */
#include "inside/engine/assembler.h"
#include "inside/engine/engine_thread.h"
#include "inside/engine/vector.h"

uint8_t *vector_put(uint8_t *at, enum vector_width width, uint32_t id, unsigned int reg,
		    const void *step)
{
	uint8_t modrm = (uint8_t)(0xf8 | (reg & 7));

	if (width == VECTOR_SSE) { /* movq %xmm15, reg */
		at = emit_8(emit_8(at, 0x66), (uint8_t)(0x4c | reg >> 3));
		at = emit_8(emit_bytes(at, "\x0f\x7e", 2), modrm);
	} else { /* vmovq */
		at = emit_8(emit_8(at, 0xc4), reg >> 3 ? 0x41 : 0x61);
		at = emit_8(emit_bytes(at, "\xf9\x7e", 2), modrm);
	}
	if (reg >> 3)
		at = emit_8(at, 0x41);
	at = emit_32(emit_8(emit_8(at, 0xc7), (uint8_t)(reg & 7)), id); /* movl $id, (reg) */
	if (width == VECTOR_SSE)					/* paddq step, %xmm15 */
		at = emit_bytes(at, "\x66\x44\x0f\xd4\x3d", 5);
	else /* vpaddq */
		at = emit_bytes(at, "\xc5\x01\xd4\x3d", 4);
	return emit_relative(at, step);
}

/* The operand of an opcode that moves register 15 from or to %gs:offset. */
static uint8_t *operand(uint8_t *at, uint32_t offset)
{
	return emit_32(emit_bytes(at, "\x3c\x25", 2), offset);
}

static uint8_t *pointer_move(uint8_t *at, enum vector_width width, int is_load)
{
	at = emit_8(at, 0x65);
	if (width == VECTOR_SSE)
		at = emit_bytes(at, is_load ? "\x44\x0f\x10" : "\x44\x0f\x11", 3); /* movups */
	else
		at = emit_bytes(at, is_load ? "\xc5\x78\x10" : "\xc5\x78\x11", 3);
	return operand(at, THREAD_POINTER);
}

static uint8_t *value_move(uint8_t *at, enum vector_width width, int is_load)
{
	uint8_t opcode = is_load ? 0x6f : 0x7f;

	at = emit_8(at, 0x65);
	if (width == VECTOR_SSE)
		at = emit_bytes(at, "\xf3\x44\x0f", 3);
	else if (width == VECTOR_AVX)
		at = emit_bytes(at, "\xc5\x7e", 2);
	else
		at = emit_bytes(at, "\x62\x71\xfe\x48", 4);
	return operand(emit_8(at, opcode), THREAD_VECTOR15);
}

uint8_t *vector_give(uint8_t *at, enum vector_width width)
{
	return value_move(pointer_move(at, width, 0), width, 1);
}

uint8_t *vector_take(uint8_t *at, enum vector_width width)
{
	return pointer_move(value_move(at, width, 0), width, 1);
}

uint8_t *vector_zero_upper(uint8_t *at, enum vector_width width)
{
	uint32_t end = width == VECTOR_SSE ? 16 : width == VECTOR_AVX ? 32 : 64;

	for (uint32_t offset = 16; offset < end; offset += 8)
		at = emit_store_64(at, 0, THREAD_VECTOR15 + offset);
	return at;
}
