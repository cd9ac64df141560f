/* SPDX-License-Identifier: MIT */
#include "trace/decode.h"

#include "trace/packet_walk.h"

#include <waymark/error.h>

const uint8_t *decode_varying_end(const uint8_t *at, const uint8_t *end,
				  const struct trace_class *class)
{
	for (unsigned int i = 0; at && i < class->count; i++) {
		int bytes = schema_type_bytes(class->types[i]);

		if (bytes > 0)
			at = end - at < bytes ? NULL : at + bytes;
		else if (class->types[i] == WM_TYPE_STR)
			at = walk_string(at, end);
		else
			at = walk_run(at, end, schema_element_bytes(class->types[i]));
	}
	return at;
}

static float load_f32(const uint8_t *from)
{
	float value;

	memcpy(&value, from, sizeof(value));
	return value;
}

static double load_f64(const uint8_t *from)
{
	double value;

	memcpy(&value, from, sizeof(value));
	return value;
}

/* A field of fixed size. */
static void field_fixed(struct wm_event_field *field, const uint8_t *at)
{
	uint64_t word = 0;
	int bytes = schema_type_bytes((uint8_t)field->type);

	memcpy(&word, at, (size_t)bytes);
	switch (field->type & WM_TYPE_MASK) {
	case WM_TYPE_I8:
	case WM_TYPE_CHAR:
		field->value.i = (int8_t)word;
		break;
	case WM_TYPE_I16:
		field->value.i = (int16_t)word;
		break;
	case WM_TYPE_I32:
		field->value.i = (int32_t)word;
		break;
	case WM_TYPE_F32:
		field->value.f = load_f32(at);
		break;
	case WM_TYPE_F64:
		field->value.f = load_f64(at);
		break;
	default:
		field->value.u = word;
	}
}

void trace_fields(struct wm_event_field *fields, const struct trace_class *class, const uint8_t *at)
{
	for (unsigned int i = 0; i < class->count; i++) {
		struct wm_event_field *field = &fields[i];
		uint8_t type = class->types[i];

		field->name = class->fields[i];
		field->type = type;
		field->state = FIELD_WHOLE;
		if (type == WM_TYPE_STR) {
			field->state = *at++;
			field->value.run.start = (const char *)at;
			field->value.run.bytes = strlen((const char *)at);
			at += field->value.run.bytes + 1;
			/* a forged one may have content all the same */
			if (field->state == FIELD_NULL || field->state == FIELD_UNREADABLE) {
				field->value.run.start = NULL;
				field->value.run.bytes = 0;
			}
		} else if (schema_element_bytes(type)) {
			field->state = *at;
			field->value.run.bytes = (size_t)load_u32(at + 1) *
						 schema_element_bytes(type);
			field->value.run.start = (const char *)at + 5;
			at += 5 + field->value.run.bytes;
		} else {
			field_fixed(field, at);
			at += schema_type_bytes(type);
		}
	}
}

/* The wall clock at `ticks`, exactly; also before the base. */
static uint64_t realtime_at(uint64_t ticks, uint64_t ticks_hz, uint64_t base_ticks,
			    uint64_t base_realtime_ns)
{
	__int128 past = (__int128)ticks - base_ticks;

	if (ticks_hz == 1000000000)
		return base_realtime_ns + (uint64_t)past;
	return base_realtime_ns + (uint64_t)(past * 1000000000 / (__int128)ticks_hz);
}

int trace_decode(const struct trace_schema *schema, const struct wm_packet *head,
		 const void *content, size_t bytes, uint64_t ticks_hz, uint64_t base_ticks,
		 uint64_t base_realtime_ns, int (*event)(const struct wm_event *event, void *data),
		 void *data)
{
	struct wm_event_field fields[SCHEMA_FIELDS_MAX];
	struct walk walk = { .at = content, .end = (const uint8_t *)content + bytes };
	struct wm_event handed = { .size = sizeof(handed),
				   .pid = head->pid,
				   .tid = head->tid,
				   .cpu = head->pid ? -1 : packet_cpu(head->tid) };

	walk.ticks = head->begin_ticks;
	while (walk.at < walk.end) {
		const struct trace_class *class;
		const uint8_t *start;
		uint32_t id;
		int err;

		if (walk_header(&walk, &id))
			return -WM_E_TRACE_DAMAGED;
		start = walk.at;
		class = schema_find(schema, id);
		if (!class || walk_fields(&walk, class))
			return -WM_E_TRACE_DAMAGED;
		trace_fields(fields, class, start);
		handed.name = class->name;
		handed.id = schema_number(schema, class);
		handed.kind = class->kind;
		handed.realtime_ns = realtime_at(walk.ticks, ticks_hz ? ticks_hz : 1000000000,
						 base_ticks, base_realtime_ns);
		handed.field_count = class->count;
		handed.fields = fields;
		if (!head->pid)
			event_thread(class, start, &handed.pid, &handed.tid);
		err = event(&handed, data);
		if (err)
			return err;
	}
	return 0;
}
