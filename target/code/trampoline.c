/* SPDX-License-Identifier: MIT */
#include "target/code/trampoline.h"

#include "target/code/payload.h"
#include "target/code/return_look.h"

#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

#define JMP_NEAR 0xe9

static int refuse(struct trampoline *trampoline, int err, const char *detail)
{
	snprintf(trampoline->detail, sizeof(trampoline->detail), "%s", detail);
	return err;
}

/*
 * The agent replaces the word at the stack pointer: it must be the return address, for unwinders
 * too.
 */
static int return_check(struct trampoline *trampoline, const struct sweep *sweep,
			const struct code_place *place)
{
	const struct frame *frame = frames_at(&sweep->frames, place->address);

	int err;

	if (!place->is_entry || !frame || frame->start != place->address || !frame->is_plain)
		return refuse(trampoline, -WM_E_RETURN_FRAME, "");
	err = sweep_return_excluded(sweep, place->address);
	if (err)
		return refuse(trampoline, err, "");
	return return_look(sweep, place->address, trampoline->detail, sizeof(trampoline->detail));
}

static int event_emit(struct trampoline *trampoline, const struct code_place *place,
		      const struct span *span)
{
	static const uint8_t link[] = DETOUR_LINK;
	struct control_detour *detour = &trampoline->detour;
	int err = 0;

	if (detour->flags & DETOUR_GUARD_CALL) {
		EMIT(&trampoline->emit, 0xb8); /* mov $number, %eax */
		emit_bytes(&trampoline->emit, &trampoline->guarded_call,
			   sizeof(trampoline->guarded_call));
	}
	if (detour->flags & DETOUR_GUARDS) {
		EMIT(&trampoline->emit, 0xff, 0x25); /* jmp *enter(%rip) */
		emit_slot(&trampoline->emit, FIXUP_ENTER, 0);
		return 0;
	}
	if (!(detour->flags & DETOUR_SECRETIVE))
		err = payload_emit(&trampoline->emit, place, span->stack_bytes);
	if (!err && (detour->flags & DETOUR_RETURN))
		payload_emit_return(&trampoline->emit, span->stack_bytes);
	detour->link_at = trampoline->emit.bytes;
	emit_bytes(&trampoline->emit, link, sizeof(link));
	return err;
}

static int code_emit(struct trampoline *trampoline, const struct code_place *place,
		     const struct span *span)
{
	struct emit *emit = &trampoline->emit;
	int err = event_emit(trampoline, place, span);

	trampoline->detour.moved_at = emit->bytes;
	if (!err)
		move_emit(emit, &span->insn);
	if (!err && move_judge(&span->insn) == MOVE_CAN) {
		EMIT(emit, JMP_NEAR);
		emit_distance(emit, span->address + span->insn.decoded.length, 0);
	}
	return err ? err : emit_finish(emit);
}

static void returns_fill(struct control_detour *detour, const struct code_place *place)
{
	const struct code_field *returns = code_place_returns(place);

	for (unsigned int i = 0; i < place->return_count && i < CODE_RETURNS_MAX; i++) {
		const struct code_operand *from = &returns[i].from;
		int is_vector = from->kind == OPERAND_VECTOR;

		detour->types[1][i] = returns[i].type;
		detour->return_at[i] = (uint8_t)((is_vector ? 16 : 0) + 8 * from->reg +
						 from->displacement);
	}
	if (place->return_count > 1 || detour->return_at[0] % 16)
		detour->flags |= DETOUR_RETURN_PARTS;
	else if (detour->return_at[0])
		detour->flags |= DETOUR_RETURN_FLOAT;
}

static void detour_fill(struct trampoline *trampoline, const struct sweep *sweep,
			const struct code_place *place, const struct span *span)
{
	struct control_detour *detour = &trampoline->detour;

	detour->insn_bytes = (uint8_t)span->bytes;
	detour->kept_bytes = (uint8_t)span->kept;
	detour->starts = span->starts;
	detour->stack_bytes = (uint16_t)span->stack_bytes;
	detour->address = span->address;
	detour->point = span->point;
	detour->semaphore = place->semaphore;
	image_read(&sweep->image, span->address, detour->original, detour->insn_bytes + span->kept);
	for (unsigned int i = 0; i < place->field_count && i < CODE_FIELDS_MAX; i++)
		detour->types[0][i] = place->fields[i].type;
	if (span->insn.decoded.meta.category == ZYDIS_CATEGORY_CALL)
		detour->flags |= DETOUR_CALL;
	if (place->is_safe)
		detour->flags |= DETOUR_SAFE;
	if (!place->wants_return)
		return;
	detour->flags |= DETOUR_RETURN;
	returns_fill(detour, place);
	if (!place->wants_entry)
		detour->flags |= DETOUR_SECRETIVE;
}

/* What an event needs as it is at the entry. */
static struct prologue entry_of(const struct code_place *place)
{
	struct prologue entry = {
		.kept = PROLOGUE_ARGUMENTS,
		.room_max = place->wants_return ? PAYLOAD_RETURN_STACK_MAX : PROLOGUE_STACK_MAX,
	};

	for (unsigned int i = 0; i < place->field_count && i < CODE_FIELDS_MAX; i++) {
		const struct code_operand *from = &place->fields[i].from;

		if (from->kind == OPERAND_REGISTER || from->kind == OPERAND_HIGH ||
		    from->kind == OPERAND_MEMORY)
			entry.kept |= from->reg < 16 ? 1u << from->reg : 0;
		if (from->kind == OPERAND_MEMORY)
			entry.kept |= from->index < 16 ? 1u << from->index : 0;
	}
	return entry;
}

/* A guard takes the function's place: it must find all as at the entry. */
static int compose(struct trampoline *trampoline, const struct sweep *sweep,
		   const struct code_place *place, unsigned int number)
{
	struct control_detour *detour = &trampoline->detour;
	struct prologue entry = entry_of(place);
	struct span span;
	int err;

	if (detour->flags & DETOUR_GUARDS)
		entry = (struct prologue){ .kept = UINT32_MAX };
	err = span_find(sweep, place->address, place->is_entry ? &entry : NULL, number, &span);

	if (err)
		return refuse(trampoline, err, span.detail);
	detour_fill(trampoline, sweep, place, &span);
	err = code_emit(trampoline, place, &span);
	if (err)
		return refuse(trampoline, err, "");
	detour->code_bytes = trampoline->emit.bytes;
	detour->fixup_count = trampoline->emit.fixup_count;
	return 0;
}

static void begin(struct trampoline *trampoline, unsigned int number)
{
	trampoline->detour = (struct control_detour){ .flags = number ? DETOUR_ELSE : 0 };
	trampoline->emit.bytes = trampoline->emit.fixup_count = trampoline->emit.slot_count = 0;
	trampoline->emit.err = 0;
	trampoline->detail[0] = '\0';
}

int trampoline_compose(const struct sweep *sweep, const struct code_place *place,
		       unsigned int number, struct trampoline *trampoline)
{
	int err;

	begin(trampoline, number);
	/* what holds for one choice holds for all */
	err = place->wants_return && !number ? return_check(trampoline, sweep, place) : 0;
	return err ? err : compose(trampoline, sweep, place, number);
}

int trampoline_compose_guard(const struct sweep *sweep, uint64_t function, uint64_t bytes,
			     uint16_t guard, uint32_t call, unsigned int number,
			     struct trampoline *trampoline)
{
	struct code_place place = { .address = function, .is_entry = 1 };

	begin(trampoline, number);
	if (bytes > UINT32_MAX)
		return refuse(trampoline, -WM_E_TRAP_GUARDS, "");
	trampoline->detour.flags |= guard;
	trampoline->detour.guard_bytes = (uint32_t)bytes;
	trampoline->guarded_call = call;
	return compose(trampoline, sweep, &place, number);
}

static size_t padded(size_t bytes)
{
	return (bytes + 7) & ~(size_t)7;
}

/* Append the bytes at *at, pad with zeros, and move *at behind that. */
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
	memcpy(at, text, text_bytes);
	if (return_text)
		memcpy(at + text_bytes, return_text, return_bytes);
	memset(at + text_bytes + return_bytes, 0,
	       padded(text_bytes + return_bytes) - text_bytes - return_bytes);
	return bytes;
}
