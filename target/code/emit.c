/* SPDX-License-Identifier: MIT */
#include "target/code/emit.h"

#include <errno.h>
#include <string.h>

void emit_bytes(struct emit *emit, const void *bytes, size_t count)
{
	if (emit->err)
		return;
	if (count > sizeof(emit->code) - emit->bytes) {
		emit->err = -ENOSPC;
		return;
	}
	memcpy(emit->code + emit->bytes, bytes, count);
	emit->bytes += (uint16_t)count;
}

void emit_number(struct emit *emit, uint64_t value, size_t bytes)
{
	emit_bytes(emit, &value, bytes);
}

static void fixup_add(struct emit *emit, enum detour_fixup_kind kind, unsigned int after,
		      uint64_t target)
{
	if (emit->err)
		return;
	if (emit->fixup_count == DETOUR_FIXUPS_MAX) {
		emit->err = -ENOSPC;
		return;
	}
	emit->fixups[emit->fixup_count++] = (struct detour_fixup){
		.offset = emit->bytes,
		.kind = (uint8_t)kind,
		.after = (uint8_t)after,
		.target = target,
	};
}

void emit_distance(struct emit *emit, uint64_t target, unsigned int after)
{
	fixup_add(emit, FIXUP_REL32, after, target);
	emit_number(emit, 0, 4);
}

void emit_slot(struct emit *emit, enum detour_fixup_kind kind, uint64_t target)
{
	if (emit->err)
		return;
	if (emit->slot_count == EMIT_SLOTS_MAX) {
		emit->err = -ENOSPC;
		return;
	}
	emit->slots[emit->slot_count++] = (struct emit_slot){
		.kind = (uint8_t)kind,
		.from = emit->bytes,
		.target = target,
	};
	emit_number(emit, 0, 4);
}

int emit_finish(struct emit *emit)
{
	/* nothing runs the padding between code and slots */
	while (!emit->err && emit->bytes % 8)
		EMIT(emit, 0xcc);
	for (size_t i = 0; i < emit->slot_count && !emit->err; i++) {
		const struct emit_slot *slot = &emit->slots[i];
		int32_t distance = emit->bytes - (slot->from + 4);

		memcpy(emit->code + slot->from, &distance, sizeof(distance));
		fixup_add(emit, slot->kind, 0, slot->target);
		emit_number(emit, 0, 8);
	}
	return emit->err;
}
