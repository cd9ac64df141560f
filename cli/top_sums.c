/* SPDX-License-Identifier: MIT */
#include "cli/top_sums.h"

#include "base/array.h"
#include "cli/output.h"
#include "read/pass/format.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/marker.h>

/* ---- classes ---- */

static int is_of(const struct trace_class *class, const struct wm_event *event)
{
	if (class->count != event->field_count || strcmp(class->name, event->name) != 0)
		return 0;
	for (unsigned int i = 0; i < class->count; i++)
		if (class->types[i] != (uint8_t)event->fields[i].type ||
		    strcmp(class->fields[i], event->fields[i].name) != 0)
			return 0;
	return 1;
}

static void class_free(const struct trace_class *class)
{
	if (!class)
		return;
	free(class->fields);
	free(class->name);
	free((void *)(uintptr_t) class);
}

/* A class as a trace would have it. NULL: no memory. */
static struct trace_class *class_make(const struct wm_event *event)
{
	struct trace_class *class = calloc(1, sizeof(*class));

	if (!class)
		return NULL;
	class->kind = 's';
	class->count = (uint8_t)event->field_count;
	class->name = strdup(event->name);
	class->fields = calloc(event->field_count + 1u, sizeof(*class->fields));
	if (!class->name || !class->fields) {
		class_free(class);
		return NULL;
	}
	for (unsigned int i = 0; i < class->count; i++) {
		class->types[i] = (uint8_t)event->fields[i].type;
		strncpy(class->fields[i], event->fields[i].name, sizeof(class->fields[i]) - 1);
	}
	return class;
}

/* The number + 1 of an event's class; 0: it is no row; -ENOMEM. */
static int class_find(struct top_sums *sums, const struct wm_event *event)
{
	struct trace_class *class;
	int keys;

	for (size_t i = 0; i < sums->class_count; i++)
		if (is_of(sums->classes[i].class, event))
			return (int)i + 1;
	if (event->field_count > SCHEMA_FIELDS_MAX)
		return 0;
	class = class_make(event);
	if (!class || array_grow(&sums->classes, &sums->class_room, sums->class_count + 1,
				 sizeof(*sums->classes))) {
		class_free(class);
		return -ENOMEM;
	}
	keys = sums_keys(class);
	if (keys < 0) {
		class_free(class);
		return 0;
	}
	sums->classes[sums->class_count++] = (struct sums_class){ .class = class,
								  .keys = (unsigned int)keys };
	sums->lines.classes = sums->classes;
	return (int)sums->class_count;
}

/* ---- values as text ---- */

static void callers_put(struct text *text, struct top_symbols *symbols,
			const struct wm_event *event, const struct wm_event_field *field)
{
	size_t count = field->value.run.bytes / sizeof(uint64_t);
	uint64_t address;

	for (size_t i = 1; i < count; i++) {
		memcpy(&address, field->value.run.start + i * sizeof(address), sizeof(address));
		text_format(text, "%s%s", i > 1 ? " < " : "",
			    top_symbols_name(symbols, (pid_t)event->pid, address - 1));
	}
}

/* As a report has it, which reads it from a trace. */
static void value_put(struct text *text, const struct sums_class *of, unsigned int number,
		      const struct wm_event_field *field)
{
	uint8_t bytes[2 + SUM_TEXT_BYTES + 1] = { 0 };
	float small = (float)field->value.f;
	struct out out;

	if (field->type == WM_TYPE_STR) {
		bytes[0] = (uint8_t)field->state;
		if (field->value.run.start)
			strncpy((char *)bytes + 1, field->value.run.start, SUM_TEXT_BYTES);
	} else if (field->type == WM_TYPE_F32) {
		memcpy(bytes, &small, sizeof(small));
	} else {
		memcpy(bytes, &field->value, sizeof(uint64_t)); /* the low bytes are first */
	}
	output_to_text(&out, text);
	format_value(&out, of->class, number, bytes);
	out_flush(&out);
}

/* Put the values of the fields of by= behind the other lines' texts. */
static void values_put(struct top_sums *sums, struct top_symbols *symbols,
		       const struct wm_event *event, const struct sums_class *of)
{
	unsigned int keys = of->keys - (unsigned int)sums_has_buckets(of);
	struct text *text = &sums->lines.texts;

	for (unsigned int i = 0; i < keys; i++) {
		const struct wm_event_field *field = &event->fields[i];

		text_format(text, "%s", i ? ", " : "");
		if (field->type == WM_TYPE_ADDRESSES)
			callers_put(text, symbols, event, field);
		else if (field->type == WM_TYPE_PTR && !strcmp(field->name, SUM_CALLER))
			text_format(text, "%s",
				    top_symbols_name(symbols, (pid_t)event->pid,
						     field->value.u - 1));
		else
			value_put(text, of, i, field);
	}
	text_add(text, "", 1);
}

/* ---- all ---- */

int top_sums_take(struct top_sums *sums, struct top_symbols *symbols, const struct wm_event *event)
{
	uint64_t values[SUM_FIELDS_MAX] = { 0 };
	struct sums_part part = { .values = values };
	int number = class_find(sums, event);
	size_t by = sums->lines.texts.bytes;
	const struct sums_class *of;

	if (number <= 0)
		return number;
	part.class = (uint32_t)number - 1;
	of = &sums->classes[part.class];
	part.count = event->fields[of->keys].value.u;
	if (sums_has_buckets(of))
		part.bucket = event->fields[of->keys - 1].value.u;
	for (unsigned int i = of->keys + 1; i < event->field_count; i++)
		values[i - of->keys - 1] = event->fields[i].value.u;
	values_put(sums, symbols, event, of);
	return sums_lines_add(&sums->lines, by, &part);
}

void top_sums_release(struct top_sums *sums)
{
	sums_lines_clear(&sums->lines);
	for (size_t i = 0; i < sums->class_count; i++)
		class_free(sums->classes[i].class);
	free(sums->classes);
	*sums = (struct top_sums){ 0 };
}
