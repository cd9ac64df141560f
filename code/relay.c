/* SPDX-License-Identifier: MIT */
#include "code/relay.h"

#include "code/move.h"
#include "code/span.h"

#include <stdbool.h>

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

static bool is_room(const struct sweep *sweep, uint64_t address)
{
	uint64_t end = address + SPAN_JUMP_BYTES;
	struct move_insn insn;

	if (sweep_next_target(sweep, address, end) < end || sweep_taboo(sweep, address, end))
		return false;
	for (uint64_t at = address; at < end; at += insn.decoded.length)
		if (!insn_at(sweep, at, &insn) || !is_filler(&insn))
			return false;
	return is_behind_end(sweep, address);
}

uint64_t relay_find(const struct sweep *sweep, uint64_t address)
{
	uint64_t from = address + SPAN_SHORT_JUMP_BYTES;

	/* a distance of 0 means that there is none */
	for (uint64_t far = 1; far <= 128; far++) {
		if (far < 128 && sweep_is_start(sweep, from + far) && is_room(sweep, from + far))
			return from + far;
		if (sweep_is_start(sweep, from - far) && is_room(sweep, from - far))
			return from - far;
	}
	return 0;
}
