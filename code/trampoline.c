/* SPDX-License-Identifier: MIT */
#include "code/trampoline.h"

#include "code/payload.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

#define JMP_NEAR 0xe9

static int refuse(struct trampoline *trampoline, int err, const char *detail)
{
	trampoline->detour.tier = TIER_REFUSED;
	snprintf(trampoline->detail, sizeof(trampoline->detail), "%s", detail);
	return err;
}

/* The agent replaces the word at the stack pointer: it must be the return address, for unwinders too. */
static int return_check(const struct sweep *sweep, const struct code_place *place)
{
	const struct frame *frame = frames_at(&sweep->frames, place->address);

	if (!place->is_entry || !frame || frame->start != place->address || !frame->is_plain)
		return -WM_E_RETURN_FRAME;
	return sweep_return_taboo(sweep, place->address);
}

static int event_emit(struct trampoline *trampoline, const struct code_place *place,
		      const struct span *span)
{
	static const uint8_t link[] = DETOUR_LINK;
	struct control_detour *detour = &trampoline->detour;
	int err = 0;

	detour->event_at = trampoline->emit.bytes;
	if (detour->flags & DETOUR_GUARDS) {
		if (detour->flags & DETOUR_GUARD_CALL) {
			EMIT(&trampoline->emit, 0xb8); /* mov $number, %eax */
			emit_bytes(&trampoline->emit, &trampoline->guarded_call,
				   sizeof(trampoline->guarded_call));
		}
		EMIT(&trampoline->emit, 0xff, 0x25); /* jmp *enter(%rip) */
		emit_slot(&trampoline->emit, FIXUP_ENTER, 0);
		return 0;
	}
	if (!(detour->flags & DETOUR_SECRETIVE))
		err = payload_emit(&trampoline->emit, place, !place->is_entry, span->keeps_flags);
	if (!err && (detour->flags & DETOUR_RETURN))
		payload_emit_return(&trampoline->emit);
	detour->link_at = trampoline->emit.bytes;
	emit_bytes(&trampoline->emit, link, sizeof(link));
	return err;
}

/* What happens before the instruction at `at`, or at the end: this one's event, room for others'. */
static int point_emit(struct trampoline *trampoline, const struct code_place *place,
		      const struct span *span, uint64_t at)
{
	static const uint8_t link[] = DETOUR_LINK;
	struct control_detour *detour = &trampoline->detour;

	if (at == span->point)
		return event_emit(trampoline, place, span);
	for (unsigned int i = 0; i < span->point_count; i++) {
		if (span->points[i] != at)
			continue;
		trampoline->links[detour->link_count++] = (struct detour_link){
			.point = (uint16_t)(at - span->address),
			.at = trampoline->emit.bytes,
		};
		emit_bytes(&trampoline->emit, link, sizeof(link));
	}
	return 0;
}

static int code_emit(struct trampoline *trampoline, const struct code_place *place,
		     const struct span *span)
{
	struct emit *emit = &trampoline->emit;
	uint64_t at = span->address;
	bool goes_on = true;
	int err = 0;

	for (unsigned int i = 0; i < span->insn_count; i++) {
		const struct move_insn *insn = &span->insns[i];

		err = point_emit(trampoline, place, span, at);
		if (err)
			return err;
		trampoline->moves[i] = (struct detour_move){
			.from = (uint16_t)(at - span->address),
			.to = emit->bytes,
		};
		move_emit(emit, insn);
		goes_on = move_judge(insn) == MOVE_CAN;
		at += insn->decoded.length;
	}
	err = point_emit(trampoline, place, span, at);
	if (goes_on) {
		EMIT(emit, JMP_NEAR);
		emit_distance(emit, span->address + span->bytes, 0);
	}
	return err ? err : emit_finish(emit);
}

static void detour_fill(struct trampoline *trampoline, const struct sweep *sweep,
			const struct code_place *place, const struct span *span)
{
	struct control_detour *detour = &trampoline->detour;

	detour->span_bytes = (uint8_t)span->bytes;
	detour->tier = (uint8_t)span->tier;
	detour->address = span->address;
	detour->point = span->point;
	detour->semaphore = place->semaphore;
	detour->pun = (uint8_t)span->kept;
	image_read(&sweep->image, span->address, detour->original, span->bytes + span->kept);
	if (span->relay) {
		detour->relay = (int8_t)(span->relay - span->address - SPAN_SHORT_JUMP_BYTES);
		image_read(&sweep->image, span->relay, detour->original + span->bytes,
			   SPAN_JUMP_BYTES);
	}
	for (unsigned int i = 0; i < place->field_count && i < CODE_FIELDS_MAX; i++)
		detour->types[0][i] = place->fields[i].type;
	if (span->insns[span->insn_count - 1].decoded.meta.category == ZYDIS_CATEGORY_CALL)
		detour->flags |= DETOUR_CALL;
	if (!place->wants_return)
		return;
	detour->flags |= DETOUR_RETURN;
	detour->types[1][0] = place->ret.type;
	if (!place->wants_entry)
		detour->flags |= DETOUR_SECRETIVE;
	if (place->ret.from.kind == OPERAND_VECTOR)
		detour->flags |= DETOUR_RETURN_FLOAT;
}

static void begin(struct trampoline *trampoline)
{
	trampoline->detour = (struct control_detour){ .tier = TIER_REFUSED };
	trampoline->emit.bytes = trampoline->emit.fixup_count = trampoline->emit.slot_count = 0;
	trampoline->emit.err = 0;
	trampoline->detail[0] = '\0';
}

static int compose(struct trampoline *trampoline, const struct sweep *sweep,
		   const struct code_place *place, const struct span *span)
{
	struct control_detour *detour = &trampoline->detour;
	int err;

	detour_fill(trampoline, sweep, place, span);
	err = code_emit(trampoline, place, span);
	if (err)
		return refuse(trampoline, err, "");
	detour->code_bytes = trampoline->emit.bytes;
	detour->fixup_count = trampoline->emit.fixup_count;
	detour->move_count = (uint16_t)span->insn_count;
	return 0;
}

int trampoline_compose(const struct sweep *sweep, const struct code_place *place,
		       struct trampoline *trampoline)
{
	struct span span;
	int err;

	begin(trampoline);
	err = place->wants_return ? return_check(sweep, place) : 0;
	if (err)
		return refuse(trampoline, err, "");
	err = span_find(sweep, place->address, place->is_entry, &span);
	if (err)
		return refuse(trampoline, err, span.detail);
	return compose(trampoline, sweep, place, &span);
}

int trampoline_compose_common(const struct sweep *sweep, const struct code_place *place,
			      uint64_t start, const uint64_t *points, unsigned int count,
			      struct trampoline *trampoline)
{
	struct span span;
	int err;

	begin(trampoline);
	if (count > DETOUR_CHAIN_MAX)
		return refuse(trampoline, -WM_E_DETOUR_TAKEN, "");
	err = place->wants_return ? return_check(sweep, place) : 0;
	if (err)
		return refuse(trampoline, err, "");
	err = span_find_common(sweep, place->address, place->is_entry, start, points, count, &span);
	if (err)
		return refuse(trampoline, err, span.detail);
	return compose(trampoline, sweep, place, &span);
}

int trampoline_compose_guard(const struct sweep *sweep, uint64_t function, uint64_t bytes,
			     uint8_t guard, uint32_t call, struct trampoline *trampoline)
{
	struct code_place place = { .address = function, .is_entry = 1 };
	struct span span;
	int err;

	begin(trampoline);
	err = span_find_whole(sweep, function, true, &span);
	if (!err && bytes > UINT32_MAX)
		err = -WM_E_TRAP_GUARDS;
	if (err)
		return refuse(trampoline, err, span.detail);
	trampoline->detour.flags = guard;
	trampoline->guarded_call = call;
	trampoline->detour.guard_bytes = (uint32_t)bytes;
	return compose(trampoline, sweep, &place, &span);
}

static size_t padded(size_t bytes)
{
	return (bytes + 7) & ~(size_t)7;
}

/* Behind what stands at *at, and padded with zeros. */
static void append(uint8_t **at, const void *from, size_t bytes)
{
	memcpy(*at, from, bytes);
	memset(*at + bytes, 0, padded(bytes) - bytes);
	*at += padded(bytes);
}

size_t trampoline_write(const struct trampoline *trampoline, uint64_t base, const char *text,
			const char *return_text, void *buffer, size_t room)
{
	struct control_detour detour = trampoline->detour;
	size_t text_bytes = strlen(text) + 1;
	size_t return_bytes = return_text ? strlen(return_text) + 1 : 0;
	size_t bytes = sizeof(detour) + padded(detour.code_bytes) +
		       detour.fixup_count * sizeof(struct detour_fixup) +
		       padded(detour.move_count * sizeof(struct detour_move)) +
		       padded(detour.link_count * sizeof(struct detour_link)) +
		       padded(text_bytes + return_bytes);
	uint8_t *at = buffer;

	if (bytes > room)
		return bytes;
	detour.bytes = (uint32_t)bytes;
	detour.address += base;
	detour.point += base;
	detour.semaphore += detour.semaphore ? base : 0;
	append(&at, &detour, sizeof(detour));
	append(&at, trampoline->emit.code, detour.code_bytes);
	for (unsigned int i = 0; i < detour.fixup_count; i++) {
		struct detour_fixup fixup = trampoline->emit.fixups[i];

		if (fixup.kind == FIXUP_REL32 || fixup.kind == FIXUP_ABS64)
			fixup.target += base;
		append(&at, &fixup, sizeof(fixup));
	}
	append(&at, trampoline->moves, detour.move_count * sizeof(struct detour_move));
	append(&at, trampoline->links, detour.link_count * sizeof(struct detour_link));
	memcpy(at, text, text_bytes);
	if (return_text)
		memcpy(at + text_bytes, return_text, return_bytes);
	memset(at + text_bytes + return_bytes, 0,
	       padded(text_bytes + return_bytes) - text_bytes - return_bytes);
	return bytes;
}
