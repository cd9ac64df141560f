/* SPDX-License-Identifier: MIT */
#include "cli/watch_value.h"

#include <stdio.h>
#include <string.h>
#include <waymark/marker.h>

/* The value's bytes, as they lay in memory; how many there are. 0: it is none of a number's. */
static size_t bytes_of(const struct wm_event_field *field, uint8_t bytes[8])
{
	static const uint8_t sizes[] = {
		[WM_TYPE_I8] = 1,   [WM_TYPE_U8] = 1,  [WM_TYPE_I16] = 2, [WM_TYPE_U16] = 2,
		[WM_TYPE_I32] = 4,  [WM_TYPE_U32] = 4, [WM_TYPE_I64] = 8, [WM_TYPE_U64] = 8,
		[WM_TYPE_BOOL] = 1, [WM_TYPE_F32] = 4, [WM_TYPE_F64] = 8, [WM_TYPE_PTR] = 8,
		[WM_TYPE_CHAR] = 1,
	};
	float narrow = (float)field->value.f;

	if (field->type < 0 || (size_t)field->type >= sizeof(sizes))
		return 0;
	memcpy(bytes, &field->value.u, 8);
	if (field->type == WM_TYPE_F32)
		memcpy(bytes, &narrow, sizeof(narrow));
	return sizes[field->type];
}

static void plain_text(const struct wm_event_field *field, char *text, size_t room)
{
	switch (field->type) {
	case WM_TYPE_I8:
	case WM_TYPE_I16:
	case WM_TYPE_I32:
	case WM_TYPE_I64:
	case WM_TYPE_CHAR:
		snprintf(text, room, "%lld", (long long)field->value.i);
		break;
	case WM_TYPE_F32:
		snprintf(text, room, "%.9g", field->value.f);
		break;
	case WM_TYPE_F64:
		snprintf(text, room, "%.17g", field->value.f);
		break;
	case WM_TYPE_PTR:
		snprintf(text, room, "0x%llx", (unsigned long long)field->value.u);
		break;
	default:
		snprintf(text, room, "%llu", (unsigned long long)field->value.u);
	}
}

char *watch_value_text(const struct watch_type *type, uint32_t node,
		       const struct wm_event_field *field, char *text, size_t room)
{
	struct wm_event_field whole = *field;
	uint8_t bytes[8];

	/* told are its bits alone, and read is where they lie */
	if (type && !node && type->node_count && type->nodes[0].bits && type->nodes[0].bit < 64)
		whole.value.u <<= type->nodes[0].bit;
	if (type && node < type->node_count && type->nodes[node].bytes &&
	    bytes_of(&whole, bytes) == type->nodes[node].bytes)
		watch_type_part_text(type, node, bytes, NULL, text, room);
	else
		plain_text(field, text, room);
	return text;
}

uint32_t watch_value_part(const struct watch_type *type, uint32_t offset,
			  const struct wm_event_field *field, char *text, size_t room)
{
	uint8_t unused[8];
	uint32_t node = 0;

	*text = '\0';
	if (type && type->node_count)
		node = watch_type_part(type, offset, (uint32_t)bytes_of(field, unused), text, room);
	if (!node)
		snprintf(text, room, "+%u", offset);
	return node;
}
