/* SPDX-License-Identifier: MIT */
#include "code/relay.h"

#include "code/move.h"
#include "code/span.h"

#include <stdbool.h>

#define INSN_BYTES_MAX 15
#define FILLERS_BACK 16

static bool insn_at(const struct sweep *sweep, uint64_t address, struct move_insn *insn)
{
	const struct sweep_part *part = sweep_part_at(sweep, address);

	return part && sweep_is_start(sweep, address) &&
	       move_decode(insn, address, part->data + (address - part->range.start),
			   part->range.end - address);
}

static bool is_filler(const struct move_insn *insn)
{
	return move_is_filler(insn) || insn->decoded.mnemonic == ZYDIS_MNEMONIC_INT3;
}

/* Not behind a call: one that doesn't return looks as one that does. */
static bool is_behind_end(const struct sweep *sweep, uint64_t address)
{
	uint64_t before = sweep_previous(sweep, address);
	struct move_insn insn;

	return before && insn_at(sweep, before, &insn) && before + insn.decoded.length == address &&
	       (insn.decoded.meta.category == ZYDIS_CATEGORY_RET ||
		insn.decoded.meta.category == ZYDIS_CATEGORY_UNCOND_BR);
}

/* Where the instructions begin that do nothing and of which one holds `address`; 0: it isn't filler. */
static uint64_t filler_start(const struct sweep *sweep, uint64_t address)
{
	struct move_insn insn;
	uint64_t at = address;

	while (address - at < INSN_BYTES_MAX && !sweep_is_start(sweep, at))
		at--;
	if (!insn_at(sweep, at, &insn) || !is_filler(&insn) || at + insn.decoded.length <= address)
		return 0;
	for (int i = 0; i < FILLERS_BACK && !is_behind_end(sweep, at); i++) {
		at = sweep_previous(sweep, at);
		if (!at || !insn_at(sweep, at, &insn) || !is_filler(&insn))
			return 0;
	}
	return is_behind_end(sweep, at) ? at : 0;
}

/* What nobody comes to needs no instruction to begin there. */
static bool is_room(const struct sweep *sweep, uint64_t address)
{
	uint64_t end = address + SPAN_JUMP_BYTES, start = filler_start(sweep, address);
	struct move_insn insn;

	if (!start || sweep_next_target(sweep, start, end) < end ||
	    sweep_taboo(sweep, address, end))
		return false;
	for (uint64_t at = start; at < end; at += insn.decoded.length)
		if (!insn_at(sweep, at, &insn) || !is_filler(&insn))
			return false;
	return true;
}

uint64_t relay_find(const struct sweep *sweep, uint64_t address)
{
	uint64_t from = address + SPAN_SHORT_JUMP_BYTES;

	/* a distance of 0 means that there is none */
	for (uint64_t far = 1; far <= 128; far++) {
		if (far < 128 && is_room(sweep, from + far))
			return from + far;
		if (is_room(sweep, from - far))
			return from - far;
	}
	return 0;
}
