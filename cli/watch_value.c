/* SPDX-License-Identifier: MIT */
#include "cli/watch_value.h"

#include "target/expression/watch_place.h"
#include "trace/schema.h"

#include <stdio.h>
#include <string.h>
#include <waymark/marker.h>

/* The value's bytes, in memory order; returns how many. 0: it is no number. */
static size_t bytes_of(const struct wm_event_field *field, uint8_t bytes[8])
{
	int count = field->type < 0 || field->type > UINT8_MAX
			    ? 0
			    : schema_type_bytes((uint8_t)field->type);
	float narrow = (float)field->value.f;

	memcpy(bytes, &field->value.u, 8);
	if (field->type == WM_TYPE_F32)
		memcpy(bytes, &narrow, sizeof(narrow));
	return count > 0 ? (size_t)count : 0;
}

static void plain_text(const struct wm_event_field *field, int is_hex, char *text, size_t room)
{
	uint8_t bytes[8] = { 0 };
	uint64_t bits = 0;

	if (is_hex && field->type != WM_TYPE_PTR) {
		memcpy(&bits, bytes, bytes_of(field, bytes));
		snprintf(text, room, "0x%llx", (unsigned long long)bits);
	} else if (field->type == WM_TYPE_F32 || field->type == WM_TYPE_F64) {
		snprintf(text, room, field->type == WM_TYPE_F32 ? "%.9g" : "%.17g", field->value.f);
	} else if (!wm_event_field_u64(field, &bits)) {
		snprintf(text, room, field->type == WM_TYPE_PTR ? "0x%llx" : "%llu",
			 (unsigned long long)bits);
	} else {
		snprintf(text, room, "%lld", (long long)field->value.i);
	}
}

char *watch_value_text(const struct watch_type *type, const struct wm_event_field *field,
		       int is_hex, char *text, size_t room)
{
	const struct watch_style style = { .is_hex = is_hex };
	struct wm_event_field whole = *field;
	uint8_t bytes[8];

	/* only its bits are printed; their place was read */
	if (type && type->node_count && type->nodes[0].bits && type->nodes[0].bit < 64)
		whole.value.u <<= type->nodes[0].bit;
	if (type && type->node_count && type->nodes[0].bytes &&
	    bytes_of(&whole, bytes) == type->nodes[0].bytes)
		expression_type_text(type, bytes, &style, text, room);
	else
		plain_text(field, is_hex, text, room);
	return text;
}

uint32_t watch_value_piece(uint64_t address, uint64_t bytes, uint32_t offset)
{
	struct watch_piece pieces[WATCH_REGISTERS];
	size_t count = expression_pieces(address, bytes, pieces);

	for (size_t i = 0; i < count && count <= WATCH_REGISTERS; i++)
		if (pieces[i].address - address == offset)
			return pieces[i].bytes;
	return 0;
}

static void number_text(const void *value, uint32_t bytes, int is_hex, char *text)
{
	uint64_t number = 0;

	memcpy(&number, value, bytes < sizeof(number) ? bytes : sizeof(number));
	snprintf(text, WATCH_VALUE_BYTES, is_hex ? "0x%llx" : "%llu", (unsigned long long)number);
}

int watch_value_change(const struct watch_type *type, const struct watch_stretch *stretch,
		       int is_hex, struct watch_part *part, const struct watch_change *change)
{
	const struct watch_style style = { .is_hex = is_hex };
	uint32_t at;
	int found = 0;

	*part = (struct watch_part){ 0 };
	if (type)
		found = expression_type_part(type, stretch, part, change->part, WATCH_PART_BYTES);
	if (found > 0) {
		at = part->offset - stretch->offset;
		expression_type_part_text(type, part, (const uint8_t *)stretch->before + at, &style,
					  change->before, WATCH_VALUE_BYTES);
		expression_type_part_text(type, part, (const uint8_t *)stretch->after + at, &style,
					  change->after, WATCH_VALUE_BYTES);
		return found;
	}
	snprintf(change->part, WATCH_PART_BYTES, "+%u", stretch->offset);
	number_text(stretch->before, stretch->bytes, is_hex, change->before);
	number_text(stretch->after, stretch->bytes, is_hex, change->after);
	return found;
}
