/* SPDX-License-Identifier: MIT */
/*
 * Machine code, written instruction by instruction; who calls has seen to the room. None of it
 * changes flags.
 */
#ifndef INSIDE_ENGINE_ASSEMBLER_H
#define INSIDE_ENGINE_ASSEMBLER_H

#include <stdint.h>

enum emit_register { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 };

static inline uint8_t *emit_8(uint8_t *at, uint8_t value)
{
	*at = value;
	return at + 1;
}

static inline uint8_t *emit_32(uint8_t *at, uint32_t value)
{
	__builtin_memcpy(at, &value, 4);
	return at + 4;
}

static inline uint8_t *emit_64(uint8_t *at, uint64_t value)
{
	__builtin_memcpy(at, &value, 8);
	return at + 8;
}

static inline uint8_t *emit_bytes(uint8_t *at, const void *bytes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		at[i] = ((const uint8_t *)bytes)[i];
	return at + count;
}

/* The four bytes that count from behind themselves to `to`. */
static inline uint8_t *emit_relative(uint8_t *at, const void *to)
{
	return emit_32(at, (uint32_t)((uintptr_t)to - (uintptr_t)at - 4));
}

/* An operand %gs:offset, behind an opcode. */
static inline uint8_t *emit_gs_operand(uint8_t *at, unsigned int reg, uint32_t offset)
{
	at = emit_8(at, (uint8_t)(0x04 | (reg & 7) << 3));
	at = emit_8(at, 0x25);
	return emit_32(at, offset);
}

/* mov %reg, %gs:offset */
static inline uint8_t *emit_save(uint8_t *at, unsigned int reg, uint32_t offset)
{
	at = emit_8(at, 0x65);
	at = emit_8(at, (uint8_t)(0x48 | (reg >> 3) << 2));
	return emit_gs_operand(emit_8(at, 0x89), reg, offset);
}

/* mov %gs:offset, %reg */
static inline uint8_t *emit_load(uint8_t *at, unsigned int reg, uint32_t offset)
{
	at = emit_8(at, 0x65);
	at = emit_8(at, (uint8_t)(0x48 | (reg >> 3) << 2));
	return emit_gs_operand(emit_8(at, 0x8b), reg, offset);
}

/* movq $value, %gs:offset: sign-extended */
static inline uint8_t *emit_store_64(uint8_t *at, int32_t value, uint32_t offset)
{
	at = emit_8(emit_8(at, 0x65), 0x48);
	return emit_32(emit_gs_operand(emit_8(at, 0xc7), 0, offset), (uint32_t)value);
}

/* jmp to */
static inline uint8_t *emit_jump(uint8_t *at, const void *to)
{
	return emit_relative(emit_8(at, 0xe9), to);
}

/* jmp *pointer */
static inline uint8_t *emit_jump_through(uint8_t *at, const void *pointer)
{
	return emit_relative(emit_bytes(at, "\xff\x25", 2), pointer);
}

/* lea offset(%rsp), %rsp */
static inline uint8_t *emit_drop(uint8_t *at, int32_t offset)
{
	at = emit_bytes(at, "\x48\x8d\xa4\x24", 4);
	return emit_32(at, (uint32_t)offset);
}

#endif
