/* SPDX-License-Identifier: MIT */
#include "read/pass/format.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NS_PER_S 1000000000u

const char *format_comm(const struct format *format, const struct merge_event *event)
{
	if (!event->stream->is_of_cpu || (!event->pid && !event->tid))
		return event->stream->comm;
	return thread_names_find(&format->names, event->pid, event->tid, event->ns);
}

int format_init(struct format *format, struct trace_reader *reader)
{
	int err;

	*format = (struct format){ .reader = reader, .first = 1, .second = UINT64_MAX };
	format->streams = calloc(reader->stream_count + 1u, sizeof(*format->streams));
	err = format->streams ? thread_names_read(&format->names, reader) : -ENOMEM;
	if (err)
		format_release(format);
	return err;
}

void format_release(struct format *format)
{
	free(format->streams);
	thread_names_release(&format->names);
	format->streams = NULL;
}

static void make_prefix(struct format_stream *prefix, const struct trace_stream *stream)
{
	char comm[17];
	int bytes;

	out_tame(comm, sizeof(comm), stream->comm);
	bytes = snprintf(prefix->text, sizeof(prefix->text), "%s-%u %u ", comm, stream->tid,
			 stream->pid);
	prefix->bytes = (uint8_t)bytes;
}

static void make_clock(struct format *format, uint64_t second)
{
	time_t time = (time_t)second;
	struct tm parts;

	if (!localtime_r(&time, &parts))
		parts = (struct tm){ 0 };
	snprintf(format->clock, sizeof(format->clock), "[%02u:%02u:%02u.",
		 (unsigned int)parts.tm_hour % 100, (unsigned int)parts.tm_min % 100,
		 (unsigned int)parts.tm_sec % 100);
	format->second = second;
}

/* "comm-TID PID [CPU] " */
static void put_thread_on_cpu(struct format *format, struct out *out,
			      const struct merge_event *event)
{
	const char *known = format_comm(format, event);
	char comm[17] = "?";

	if (known)
		out_tame(comm, sizeof(comm), known);
	out_text(out, comm, strlen(comm));
	out_char(out, '-');
	out_u64(out, event->tid);
	out_char(out, ' ');
	out_u64(out, event->pid);
	out_char(out, ' ');
	if (event->stream->cpu < 0)
		return;
	out_char(out, '[');
	out_u64(out, (uint32_t)event->stream->cpu);
	out_literal(out, "] ");
}

/* "[HH:MM:SS.nnnnnnnnn] (+S.nnnnnnnnn) comm-TID PID " */
static void line_start(struct format *format, struct out *out, const struct merge_event *event)
{
	struct format_stream *prefix = &format->streams[event->stream - format->reader->streams];
	uint64_t second = event->ns / NS_PER_S, delta = event->ns - format->last_ns;

	if (second != format->second)
		make_clock(format, second);
	if (!prefix->bytes)
		make_prefix(prefix, event->stream);
	out_short(out, format->clock, 10);
	out_nine(out, (uint32_t)(event->ns % NS_PER_S));
	if (format->first) {
		out_literal(out, "] (+?.?????????\x29 ");
	} else {
		int back = (int64_t)delta < 0;

		delta = back ? 0 - delta : delta;
		out_short(out, back ? "] (-" : "] (+", 4);
		out_u64(out, delta / NS_PER_S);
		out_char(out, '.');
		out_nine(out, (uint32_t)(delta % NS_PER_S));
		out_literal(out, ") ");
	}
	if (event->stream->is_of_cpu)
		put_thread_on_cpu(format, out, event);
	else
		out_short(out, prefix->text, prefix->bytes);
	format->first = 0;
	format->last_ns = event->ns;
}

static int64_t load_signed(uint8_t type, const uint8_t *at)
{
	if (type == WM_TYPE_I64)
		return (int64_t)load_u64(at);
	if (type == WM_TYPE_I32)
		return (int32_t)load_u32(at);
	return type == WM_TYPE_I16 ? (int16_t)(at[0] | at[1] << 8) : (int8_t)at[0];
}

static uint64_t load_unsigned(uint8_t type, const uint8_t *at)
{
	if (type == WM_TYPE_U64 || type == WM_TYPE_PTR)
		return load_u64(at);
	if (type == WM_TYPE_U32)
		return load_u32(at);
	return type == WM_TYPE_U16 ? (uint64_t)(at[0] | at[1] << 8) : at[0];
}

/* A number of either form: what text and JSON have in common. */
static void put_number(struct out *out, uint8_t type, const uint8_t *at)
{
	switch (type) {
	case WM_TYPE_I8:
	case WM_TYPE_I16:
	case WM_TYPE_I32:
	case WM_TYPE_I64:
		out_i64(out, load_signed(type, at));
		return;
	default:
		out_u64(out, load_unsigned(type, at));
	}
}

static double load_float(uint8_t type, const uint8_t *at)
{
	float narrow;
	double wide;

	if (type == WM_TYPE_F64) {
		memcpy(&wide, at, sizeof(wide));
		return wide;
	}
	memcpy(&narrow, at, sizeof(narrow));
	return (double)narrow;
}

static void put_float(struct out *out, uint8_t type, const uint8_t *at)
{
	double value = load_float(type, at);

	if (type == WM_TYPE_F64)
		out_f64(out, value);
	else
		out_f32(out, (float)value);
}

/* The name of a field's value, or the names of its flags, in text[] perhaps; NULL: a number. */
static const char *name_of(const struct trace_class *class, unsigned int field, const uint8_t *at,
			   char text[ENUMERATION_TEXT_MAX])
{
	const struct enumeration *names = class->names ? class->names[field] : NULL;
	int is_signed;

	if (!names)
		return NULL;
	enumeration_type_bytes(names->type, &is_signed);
	return enumeration_text(names,
				is_signed ? (uint64_t)load_signed(names->type, at)
					  : load_unsigned(names->type, at),
				text);
}

/* Addresses, each within `quote`, with `between` between them. Returns where the next field is. */
static const uint8_t *put_addresses(struct out *out, const uint8_t *at, const char *between,
				    const char *quote)
{
	uint32_t count = load_u32(at + 1);

	at += 5;
	for (uint32_t i = 0; i < count; i++, at += 8) {
		if (i)
			out_char(out, *between);
		if (*quote)
			out_char(out, *quote);
		out_hex(out, load_u64(at));
		if (*quote)
			out_char(out, *quote);
	}
	return at;
}

/* An integer's bytes, for base 16. */
static uint64_t load_hex(uint8_t type, const uint8_t *at)
{
	uint64_t word = 0;

	memcpy(&word, at, site_type_bytes(type));
	return word;
}

static const uint8_t *value_text(struct out *out, uint8_t type, const uint8_t *at);
static const uint8_t *value_json(struct out *out, uint8_t type, const uint8_t *at);

struct array_form {
	const char *null, *between, *cut;
	void (*characters)(struct out *out, const char *text, size_t bytes);
	const uint8_t *(*value)(struct out *out, uint8_t type, const uint8_t *at);
};

static const struct array_form form_text = { "NULL", ", ", "...", out_escaped, value_text },
			       form_json = { "null", ",", "", out_json, value_json };

/* An array of characters is a string, which may have a NUL within. */
static const uint8_t *array_put(struct out *out, uint8_t type, const uint8_t *at,
				const struct array_form *form)
{
	uint8_t state = *at, element = type & (uint8_t)~WM_TYPE_ARRAY;
	uint32_t count = load_u32(at + 1);
	const uint8_t *end = at + 5 + (size_t)count * schema_element_bytes(type);

	at += 5;
	if (state == FIELD_NULL) {
		out_short(out, form->null, strlen(form->null));
		return end;
	}
	if (element == WM_TYPE_CHAR) {
		out_char(out, '"');
		form->characters(out, (const char *)at, count);
		out_char(out, '"');
	} else {
		out_char(out, '[');
		for (uint32_t i = 0; i < count; i++) {
			out_short(out, form->between, i ? strlen(form->between) : 0);
			at = form->value(out, element, at);
		}
		out_char(out, ']');
	}
	out_short(out, form->cut, state == FIELD_CUT ? strlen(form->cut) : 0);
	return end;
}

/* A field's value; returns where the next field is. */
static const uint8_t *value_text(struct out *out, uint8_t type, const uint8_t *at)
{
	size_t bytes;
	uint8_t state;

	switch (type) {
	case WM_TYPE_STR:
		state = *at++;
		bytes = strlen((const char *)at);
		if (state == FIELD_NULL) {
			out_literal(out, "NULL");
		} else if (state == FIELD_UNREADABLE) {
			out_literal(out, "(unreadable)");
		} else {
			out_char(out, '"');
			out_escaped(out, (const char *)at, bytes);
			out_short(out, "\"...", state == FIELD_CUT ? 4 : 1);
		}
		return at + bytes + 1;
	case WM_TYPE_BYTES:
		state = *at;
		bytes = load_u32(at + 1);
		out_char(out, '[');
		out_bytes(out, at + 5, bytes);
		out_short(out, "]...", state == FIELD_CUT ? 4 : 1);
		return at + 5 + bytes;
	case WM_TYPE_ADDRESSES:
		state = *at;
		out_char(out, '[');
		at = put_addresses(out, at, " ", "");
		out_short(out, "]...", state == FIELD_CUT ? 4 : 1);
		if (state == FIELD_UNREADABLE)
			out_literal(out, " (unreadable)");
		else if (state == FIELD_NO_RULE)
			out_literal(out, " (no_rule)");
		else if (state == FIELD_ASTRAY)
			out_literal(out, " (astray)");
		return at;
	case WM_TYPE_BOOL:
		out_short(out, *at ? "true" : "false", *at ? 4 : 5);
		break;
	case WM_TYPE_CHAR:
		out_char(out, '\'');
		out_escaped(out, (const char *)at, 1);
		out_char(out, '\'');
		break;
	case WM_TYPE_PTR:
		out_hex(out, load_u64(at));
		break;
	case WM_TYPE_F32:
	case WM_TYPE_F64:
		put_float(out, type, at);
		break;
	default:
		if (type & WM_TYPE_ARRAY)
			return array_put(out, type, at, &form_text);
		if (type & WM_TYPE_HEX)
			out_hex(out, load_hex(type, at));
		else
			put_number(out, type, at);
	}
	return at + schema_type_bytes(type);
}

/* Whose losses they are: not those of the thread that the CPU's next event is about. */
static struct merge_event loss_of(const struct merge_event *event)
{
	struct merge_event loss = *event;

	if (loss.stream->is_of_cpu)
		loss.pid = loss.tid = 0;
	return loss;
}

static void losses_text(struct format *format, struct out *out, const struct merge_event *event)
{
	struct merge_event loss;

	if (__builtin_expect(!event->lost && !event->missing_packets, 1))
		return;
	loss = loss_of(event);
	line_start(format, out, &loss);
	out_char(out, '(');
	out_u64(out, event->lost);
	out_literal(out, " events lost");
	if (event->missing_packets) {
		out_literal(out, ", ");
		out_u64(out, event->missing_packets);
		out_literal(out, " packets missing");
	}
	out_literal(out, ")\n");
}

/* Apart, so that values without names need no text[], which costs checks of the stack. */
static __attribute__((noinline)) const uint8_t *
named_text(struct out *out, const struct trace_class *class, unsigned int field, const uint8_t *at)
{
	char text[ENUMERATION_TEXT_MAX];
	const char *name = name_of(class, field, at, text);

	if (!name)
		return value_text(out, class->types[field], at);
	out_escaped(out, name, strlen(name));
	return at + schema_type_bytes(class->types[field]);
}

const uint8_t *format_value(struct out *out, const struct trace_class *class, unsigned int field,
			    const uint8_t *at)
{
	return class->names ? named_text(out, class, field, at)
			    : value_text(out, class->types[field], at);
}

/* "field = value, ..." of the first fields */
static void fields_text(struct out *out, const struct trace_class *class, unsigned int count,
			const uint8_t *at)
{
	for (unsigned int i = 0; i < count; i++) {
		if (i)
			out_literal(out, ", ");
		out_short(out, class->fields[i], class->field_bytes[i]);
		out_literal(out, " = ");
		at = format_value(out, class, i, at);
	}
}

void format_values(struct out *out, const struct trace_class *class, const uint8_t *at)
{
	fields_text(out, class, class->count - class->costs, at);
}

void format_text(struct format *format, struct out *out, const struct merge_event *event)
{
	const struct trace_class *class = event->class;

	losses_text(format, out, event);
	if (!class)
		return;
	line_start(format, out, event);
	out_escaped(out, class->name, class->name_bytes);
	if (class->count) {
		out_literal(out, ": { ");
		fields_text(out, class, class->count, event->fields);
		out_literal(out, " }");
	}
	out_char(out, '\n');
}

/* ---- calls ---- */

/* The name that the begin and the end of a span share. */
static void span_name(struct out *out, const struct trace_class *class)
{
	out_escaped(out, class->name,
		    class->name_bytes - (class->kind == 'b' ? strlen(":begin") : strlen(":end")));
}

/* " = RESULT", and the error where there was one: the field that is called errno. */
static void result_text(struct out *out, const struct merge_event *end)
{
	const struct trace_class *class = end->class;
	const uint8_t *at = end->fields, *error = end->end - 4;
	int has_error = class->count == 2 && class->types[1] == WM_TYPE_I32 &&
			!strcmp(class->fields[1], "errno");

	if (!class->count)
		return;
	out_literal(out, " = ");
	if (class->count > 1 && !has_error) {
		out_literal(out, "{ ");
		fields_text(out, class, class->count, at);
		out_literal(out, " }");
		return;
	}
	format_value(out, class, 0, at);
	if (has_error && load_u32(error)) {
		out_char(out, ' ');
		format_value(out, class, 1, error);
	}
}

/* " <SECONDS>" */
static void duration_text(struct out *out, uint64_t ns)
{
	out_literal(out, " <");
	out_u64(out, ns / NS_PER_S);
	out_char(out, '.');
	out_nine(out, (uint32_t)(ns % NS_PER_S));
	out_char(out, '>');
}

void format_call(struct format *format, struct out *out, const struct merge_event *begin,
		 const struct merge_event *end)
{
	const struct trace_class *class = begin->class;
	const uint8_t *at = begin->fields;

	losses_text(format, out, begin);
	line_start(format, out, begin);
	span_name(out, class);
	out_char(out, '(');
	for (unsigned int i = 0; i < class->count; i++) {
		if (i)
			out_literal(out, ", ");
		at = format_value(out, class, i, at);
	}
	out_char(out, ')');
	if (end) {
		result_text(out, end);
		duration_text(out, end->ns - begin->ns);
	} else {
		out_literal(out, " <unfinished ...>");
	}
	out_char(out, '\n');
}

void format_return(struct format *format, struct out *out, const struct merge_event *end,
		   uint64_t begin_ns)
{
	losses_text(format, out, end);
	line_start(format, out, end);
	out_literal(out, "<... ");
	span_name(out, end->class);
	out_literal(out, " resumed>");
	result_text(out, end);
	if (begin_ns)
		duration_text(out, end->ns - begin_ns);
	out_char(out, '\n');
}

static const uint8_t *value_json(struct out *out, uint8_t type, const uint8_t *at)
{
	size_t bytes;
	int finite;

	switch (type) {
	case WM_TYPE_STR:
		bytes = strlen((const char *)at + 1);
		if (*at == FIELD_NULL || *at == FIELD_UNREADABLE) {
			out_literal(out, "null");
		} else {
			out_char(out, '"');
			out_json(out, (const char *)at + 1, bytes);
			out_char(out, '"');
		}
		return at + bytes + 2;
	case WM_TYPE_BYTES:
		bytes = load_u32(at + 1);
		out_char(out, '"');
		out_bytes(out, at + 5, bytes);
		out_char(out, '"');
		return at + 5 + bytes;
	case WM_TYPE_ADDRESSES:
		out_char(out, '[');
		at = put_addresses(out, at, ",", "\"");
		out_char(out, ']');
		return at;
	case WM_TYPE_BOOL:
		out_short(out, *at ? "true" : "false", *at ? 4 : 5);
		break;
	case WM_TYPE_CHAR: /* a character is its code point: Latin-1 */
		out_char(out, '"');
		if (*at < 0x80) {
			out_json(out, (const char *)at, 1);
		} else {
			out_literal(out, "\\u00");
			out_bytes(out, at, 1);
		}
		out_char(out, '"');
		break;
	case WM_TYPE_PTR:
		out_char(out, '"');
		out_hex(out, load_u64(at));
		out_char(out, '"');
		break;
	case WM_TYPE_F32:
	case WM_TYPE_F64: /* JSON has no word for nan and inf: as strings */
		finite = __builtin_isfinite(load_float(type, at));
		out_short(out, "\"", !finite);
		put_float(out, type, at);
		/* readers take -0 for an integer, which has no sign */
		if (load_float(type, at) == 0 && __builtin_signbit(load_float(type, at)))
			out_literal(out, ".0");
		out_short(out, "\"", !finite);
		break;
	default:
		if (type & WM_TYPE_ARRAY)
			return array_put(out, type, at, &form_json);
		put_number(out, type & (uint8_t)~WM_TYPE_HEX, at);
	}
	return at + schema_type_bytes(type);
}

static void json_start(struct format *format, struct out *out, const struct merge_event *event)
{
	const struct trace_stream *stream = event->stream;
	const char *comm = format_comm(format, event);

	out_literal(out, "{\"time_ns\":");
	out_u64(out, event->ns);
	out_literal(out, ",\"pid\":");
	out_u64(out, event->pid);
	out_literal(out, ",\"tid\":");
	out_u64(out, event->tid);
	out_literal(out, ",\"comm\":\"");
	if (comm)
		out_json(out, comm, strlen(comm));
	out_char(out, '"');
	if (stream->cpu >= 0) {
		out_literal(out, ",\"cpu\":");
		out_u64(out, (uint32_t)stream->cpu);
	}
	if (stream->depth) {
		out_literal(out, ",\"depth\":");
		out_u64(out, stream->depth);
	}
}

static void json_losses(struct format *format, struct out *out, const struct merge_event *event)
{
	struct merge_event loss;

	if (__builtin_expect(!event->lost && !event->missing_packets, 1))
		return;
	loss = loss_of(event);
	json_start(format, out, &loss);
	out_literal(out, ",\"lost\":");
	out_u64(out, event->lost);
	out_literal(out, ",\"missing_packets\":");
	out_u64(out, event->missing_packets);
	out_literal(out, "}\n");
}

const uint8_t *format_field_end(uint8_t type, const uint8_t *at)
{
	if (type == WM_TYPE_STR)
		return at + 2 + strlen((const char *)at + 1);
	if (schema_element_bytes(type))
		return at + 5 + (size_t)load_u32(at + 1) * schema_element_bytes(type);
	return at + schema_type_bytes(type);
}

/* ,"WORD":["field", ...] of the fields in that state, when there is one. */
static void json_state(struct out *out, const struct trace_class *class, const uint8_t *at,
		       uint8_t state, const char *word)
{
	int found = 0;

	if (class->fixed_bytes >= 0)
		return;
	for (unsigned int i = 0; i < class->count; i++) {
		uint8_t type = class->types[i];

		if (schema_type_bytes(type) < 0 && *at == state) {
			out_literal(out, ",\"");
			if (!found) {
				out_text(out, word, strlen(word));
				out_literal(out, "\":[\"");
			}
			out_short(out, class->fields[i], class->field_bytes[i]);
			out_char(out, '"');
			found = 1;
		}
		at = format_field_end(type, at);
	}
	if (found)
		out_char(out, ']');
}

/* ,"names":{"field":"NAME", ...} for values that have a name, in a class that has names. */
static void json_names(struct out *out, const struct trace_class *class, const uint8_t *at)
{
	char text[ENUMERATION_TEXT_MAX];
	const uint8_t *end;
	int found = 0;

	for (unsigned int i = 0; i < class->count; i++, at = end) {
		const char *name = name_of(class, i, at, text);

		end = format_field_end(class->types[i], at);
		if (!name)
			continue;
		if (!found)
			out_literal(out, ",\"names\":{\"");
		else
			out_literal(out, ",\"");
		out_short(out, class->fields[i], class->field_bytes[i]);
		out_literal(out, "\":\"");
		out_json(out, name, strlen(name));
		out_char(out, '"');
		found = 1;
	}
	if (found)
		out_char(out, '}');
}

void format_json_fields(struct out *out, const struct merge_event *event)
{
	const struct trace_class *class = event->class;
	const uint8_t *at = event->fields;

	for (unsigned int i = 0; i < class->count; i++) {
		out_short(out, ",\"", i ? 2 : 0);
		if (!i)
			out_char(out, '"');
		out_short(out, class->fields[i], class->field_bytes[i]);
		out_literal(out, "\":");
		at = value_json(out, class->types[i], at);
	}
}

void format_json(struct format *format, struct out *out, const struct merge_event *event)
{
	const struct trace_class *class = event->class;

	json_losses(format, out, event);
	if (!class)
		return;
	json_start(format, out, event);
	out_literal(out, ",\"name\":\"");
	out_json(out, class->name, class->name_bytes);
	out_literal(out, "\",\"fields\":{");
	format_json_fields(out, event);
	out_char(out, '}');
	if (class->names)
		json_names(out, class, event->fields);
	json_state(out, class, event->fields, FIELD_CUT, "cut");
	json_state(out, class, event->fields, FIELD_UNREADABLE, "unreadable");
	json_state(out, class, event->fields, FIELD_NO_RULE, "no_rule");
	json_state(out, class, event->fields, FIELD_ASTRAY, "astray");
	if (format->put_members)
		format->put_members(out, event, format->data);
	out_literal(out, "}\n");
}
