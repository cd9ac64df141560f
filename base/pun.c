/* SPDX-License-Identifier: MIT */
#include "base/pun.h"

#include <string.h>

#define JMP_NEAR 0xe9
#define BREAKPOINT 0xcc
#define PREFIX 0x26 /* %es: nothing in 64-bit mode (AMD64 manual 2, 4.5.3) */

static int is_segment(uint8_t byte)
{
	return byte == 0x26 || byte == 0x2e || byte == 0x36 || byte == 0x3e || byte == 0x64 ||
	       byte == 0x65;
}

/*
 * Whether a jump behind the first `count` bytes of the instruction takes them for prefixes that
 * mean nothing.
 */
static int are_prefixes(const uint8_t *insn, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		/* REX, which must be right before the opcode */
		int is_rex = i == count - 1 && (insn[i] & 0xf0) == 0x40;

		if (!is_rex && !is_segment(insn[i]))
			return 0;
	}
	return 1;
}

/* How many bytes of the distance may be chosen; -1: this is no way to write the form. */
static int free_bytes_of(const struct control_detour *record, enum detour_form form,
			 unsigned int opcode_at)
{
	unsigned int behind = record->insn_bytes - 1u - opcode_at;
	int free_bytes = (int)(behind < PUN_WHOLE ? behind : PUN_WHOLE);

	/* with its prefixes the jump is one instruction (AMD64 manual 3, 1.1) */
	if (opcode_at + DETOUR_JUMP_BYTES > DETOUR_INSN_MAX)
		return -1;
	switch (form) {
	case FORM_BYTE:
		return are_prefixes(record->original, opcode_at) &&
				       record->original[opcode_at] != JMP_NEAR
			       ? 0
			       : -1;
	case FORM_BEHIND:
		return opcode_at && free_bytes && are_prefixes(record->original, opcode_at)
			       ? free_bytes
			       : -1;
	case FORM_FIRST:
		return opcode_at || free_bytes ? free_bytes : -1;
	}
	return -1;
}

/* The distance as it is with free bytes 0 and breakpoints at some of the kept bytes. */
static int32_t distance_with(const struct control_detour *record, const struct pun_window *window,
			     unsigned int breakpoints)
{
	uint8_t kept[DETOUR_KEPT_MAX], distance[4] = { 0 };
	const uint8_t *from = record->original + record->insn_bytes;
	unsigned int of_insn = record->insn_bytes - 1u - window->opcode_at;
	int32_t number;

	for (unsigned int i = 0; i < DETOUR_KEPT_MAX; i++)
		kept[i] = breakpoints >> i & 1 ? BREAKPOINT : from[i];
	of_insn = of_insn < 4 ? of_insn : 4;
	if (window->form == FORM_BYTE)
		memcpy(distance, record->original + window->opcode_at + 1, of_insn);
	memcpy(distance + of_insn, kept, 4 - of_insn);
	memcpy(&number, distance, sizeof number);
	return number;
}

/* 0: so many bytes of the file are not known behind the instruction. */
static int fill(const struct control_detour *record, struct pun_window *window)
{
	int end = window->opcode_at + DETOUR_JUMP_BYTES - record->insn_bytes;
	unsigned int kept = end > 0 ? (unsigned int)end : 0;
	unsigned int starts = record->starts & ((1u << kept) - 1);

	if (kept > record->kept_bytes)
		return 0;
	window->low = (int64_t)record->address + window->opcode_at + DETOUR_JUMP_BYTES;
	window->count = 0;
	/* a breakpoint where one is built in, as padding, changes nothing */
	for (unsigned int i = 0; i < kept; i++) {
		if (record->original[record->insn_bytes + i] == BREAKPOINT)
			starts &= ~(1u << i);
	}
	if (window->free_bytes == PUN_WHOLE) {
		window->low += INT32_MIN;
		return 1;
	}
	window->low += distance_with(record, window, 0);
	/* all subsets of what may have a breakpoint, the empty one first */
	for (unsigned int set = 0;; set = (set - starts) & starts) {
		window->deltas[window->count++] = (int64_t)distance_with(record, window, set) -
						  distance_with(record, window, 0);
		if (set == starts)
			return 1;
	}
}

int pun_next(const struct control_detour *record, enum detour_form form, unsigned int *number,
	     struct pun_window *window)
{
	while (*number < record->insn_bytes) {
		unsigned int opcode_at = (*number)++;
		int free_bytes = free_bytes_of(record, form, opcode_at);

		if (free_bytes < 0)
			continue;
		window->form = (uint8_t)form;
		window->opcode_at = (uint8_t)opcode_at;
		window->free_bytes = (uint8_t)free_bytes;
		if (fill(record, window))
			return 1;
	}
	return 0;
}

void pun_write(const struct control_detour *record, const struct pun_window *window, uint64_t to,
	       struct pun_bytes *bytes)
{
	int32_t distance = (int32_t)(to - record->address - window->opcode_at - DETOUR_JUMP_BYTES);
	unsigned int prefixes = window->form == FORM_FIRST ? window->opcode_at : 0;

	*bytes = (struct pun_bytes){ .at = (uint8_t)(window->opcode_at - prefixes),
				     .count = (uint8_t)(prefixes + 1 + window->free_bytes) };
	memset(bytes->bytes, PREFIX, prefixes);
	bytes->bytes[prefixes] = JMP_NEAR;
	memcpy(bytes->bytes + prefixes + 1, &distance, window->free_bytes);
}
