/* SPDX-License-Identifier: MIT */
/*
 * Position-free code of a trampoline as it is written: bytes, what the agent must fill in, and the
 * slots of 8 bytes behind the code that instructions refer to.
 */
#ifndef TARGET_CODE_EMIT_H
#define TARGET_CODE_EMIT_H

#include "abi/detour.h"

#include <stddef.h>
#include <stdint.h>

#define EMIT_SLOTS_MAX 8

struct emit_slot {
	uint8_t kind;  /* FIXUP_WORD and on, or FIXUP_ABS64 */
	uint16_t from; /* where the displacement that refers to it is */
	uint64_t target;
};

struct emit {
	uint8_t code[DETOUR_CODE_MAX];
	uint16_t bytes;
	uint16_t fixup_count;
	uint16_t slot_count;
	struct detour_fixup fixups[DETOUR_FIXUPS_MAX];
	struct emit_slot slots[EMIT_SLOTS_MAX];
	int err; /* -ENOSPC once something did not fit; nothing is written from then on */
};

void emit_bytes(struct emit *emit, const void *bytes, size_t count);
void emit_number(struct emit *emit, uint64_t value, size_t bytes); /* little-endian */

/*
 * 4 bytes that will lead to an address of the program; `after`: bytes of the instruction behind
 * them.
 */
void emit_distance(struct emit *emit, uint64_t target, unsigned int after);

/* 4 bytes that end an instruction and lead to a slot, which is made by emit_finish(). */
void emit_slot(struct emit *emit, enum detour_fixup_kind kind, uint64_t target);

/* Write the slots, aligned to 8 bytes. Returns emit->err. */
int emit_finish(struct emit *emit);

/* Instructions by their bytes, without the operands that the functions above write. */
#define EMIT(emit, ...)                                                                            \
	emit_bytes(emit, (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }))

#endif
