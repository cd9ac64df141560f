/* SPDX-License-Identifier: MIT */
#include "record/session/triggers.h"

#include "abi/site.h"
#include "base/condition.h"
#include "base/level.h"
#include "base/predicate.h"
#include "base/text_glob.h"
#include "record/session/session.h"
#include "record/spec/spec.h"
#include "trace/decode.h"
#include "trace/schema.h"
#include "trace/writer.h"

#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define NAME_BYTES 1024 /* of a marker: SUBSYSTEM:EVENT */

/* ---- which ---- */

/*
 * What the agent asks of a marker's hit may be more than this: when another spec takes the marker
 * without a condition, all its hits come, and the condition is asked here, of its fields.
 */
static int check_kind(struct wm_session *session, const struct spec *spec)
{
	if ((!spec->glob && !spec->request) || spec->sums.is_wanted ||
	    (spec->request && spec->request->sums.is_wanted))
		return session_fail(session, -WM_E_SPEC,
				    "%s: a trigger is an event of a marker or a probe", spec->text);
	for (unsigned int i = 0; spec->glob && i < spec->predicate_count; i++) {
		const char *name = spec->predicates[i].name;
		uint8_t type;

		if (predicate_context(name, &type) != PREDICATE_OF_FIELD)
			return session_fail(session, -WM_E_SPEC,
					    "%s: %s is no field of a marker, as a trigger asks for",
					    spec->text, name);
	}
	return 0;
}

int session_trigger_add(struct wm_session *session, const char *text)
{
	struct spec *spec = spec_find(session->specs, text);
	int err = spec ? 0 : wm_session_add(session, text);

	if (err)
		return err;
	spec = spec_find(session->specs, text);
	err = check_kind(session, spec);
	if (!err && !spec->trigger && session->triggers->count == TRIGGERS_MAX)
		err = session_fail(session, -E2BIG, "%s: there are %d triggers", text,
				   TRIGGERS_MAX);
	if (!err && !spec->trigger)
		spec->trigger = ++session->triggers->count;
	return err;
}

/* Whether the marker has a level that the spec's conditions on it allow. */
static int level_fits(const struct spec *spec, const char *text)
{
	unsigned int level = level_of_text(text);
	struct watch_condition condition;

	for (unsigned int i = 0; i < spec->predicate_count; i++)
		if (!strcmp(spec->predicates[i].name, LEVEL_WORD) &&
		    (level == LEVEL_NONE ||
		     predicate_bind(&spec->predicates[i], WM_TYPE_U8, &condition) ||
		     !condition_holds(&condition, 0, level, 1, 0)))
			return 0;
	return 1;
}

/* Whether a spec asks for the duration of a span, and this is its begin or end. */
static int is_half(const struct spec *spec, const char *text)
{
	const char *fields = strrchr(text, '\n');

	for (unsigned int i = 0; (*text == 'b' || *text == 'e') && i < spec->predicate_count; i++)
		if (!strcmp(spec->predicates[i].name, PREDICATE_DURATION))
			return !fields || predicate_field(PREDICATE_DURATION, 0, fields + 1,
							  WM_FIELDS_MAX) < 0;
	return 0;
}

/* A probe's event has it in its text. */
static unsigned int trigger_in_text(const char *text)
{
	size_t bytes, prefix = strlen(SITE_TRIGGER);
	const char *word = level_word(text, &bytes);

	return word && bytes > prefix && !strncmp(word, SITE_TRIGGER, prefix)
		       ? (unsigned int)strtoul(word + prefix, NULL, 10)
		       : 0;
}

static uint32_t bit_of(unsigned int number)
{
	return number && number <= TRIGGERS_MAX ? 1u << (number - 1) : 0;
}

uint32_t triggers_of(const struct wm_session *session, const char *text)
{
	uint32_t all = 0;
	char name[NAME_BYTES];

	if (!session->triggers->count || !text[0])
		return 0;
	if (text[1] == 'd')
		return bit_of(trigger_in_text(text));
	if (spec_name_of(text, name, sizeof(name)))
		return 0;
	for (size_t i = 0; i < session->specs->count; i++) {
		const struct spec *spec = &session->specs->all[i];

		if (spec->trigger && spec_matches(spec, name) && level_fits(spec, text) &&
		    !is_half(spec, text))
			all |= bit_of(spec->trigger);
	}
	return all;
}

/* ---- their hits ---- */

/* A number's bytes as in memory, the others 0. */
static uint64_t raw_of(const struct wm_event_field *field, uint8_t type, int bytes)
{
	uint64_t raw = field->value.u;
	float f32;

	if (type == WM_TYPE_F32) {
		f32 = (float)field->value.f;
		raw = 0;
		memcpy(&raw, &f32, sizeof(f32));
	}
	return bytes < 8 ? raw & ((UINT64_C(1) << 8 * bytes) - 1) : raw;
}

static int byte_at(void *text, uint32_t at)
{
	return ((const unsigned char *)text)[at];
}

/* 1, 0; -1: it has no such field, or of another type. */
static int predicate_holds(const struct predicate *predicate, const struct trace_class *class,
			   const struct wm_event_field *fields)
{
	struct watch_condition condition;
	unsigned int i = 0;
	uint8_t type;

	while (i < class->count && strcmp(class->fields[i], predicate->name) != 0)
		i++;
	if (i == class->count || class->types[i] & WM_TYPE_ARRAY)
		return -1;
	type = class->types[i] & WM_TYPE_MASK;
	if (predicate_bind(predicate, type, &condition))
		return -1;
	if (type == WM_TYPE_STR)
		return fields[i].value.run.start &&
		       text_glob_match(predicate->text, byte_at,
				       (void *)fields[i].value.run.start) ==
			       (predicate->by == WATCH_BY_EQUAL);
	return condition_holds(&condition, 0, raw_of(&fields[i], type, schema_type_bytes(type)),
			       (unsigned int)schema_type_bytes(type), 0);
}

static int all_hold(struct wm_session *session, const struct spec *spec,
		    const struct trace_class *class, const uint8_t *at)
{
	struct wm_event_field fields[SCHEMA_FIELDS_MAX];

	if (spec->predicate_count)
		trace_fields(fields, class, at);
	for (unsigned int i = 0; i < spec->predicate_count; i++) {
		int holds = strcmp(spec->predicates[i].name, LEVEL_WORD) != 0
				    ? predicate_holds(&spec->predicates[i], class, fields)
				    : 1;

		session->triggers->misfits += holds < 0;
		if (holds <= 0)
			return 0;
	}
	return 1;
}

static int look_at(const struct trace_class *class, const uint8_t *at, void *data)
{
	struct wm_session *session = data;

	if (!class->triggers)
		return 0;
	for (size_t i = 0; i < session->specs->count; i++) {
		const struct spec *spec = &session->specs->all[i];

		if (!(bit_of(spec->trigger) & class->triggers) ||
		    (spec->glob && !all_hold(session, spec, class, at)))
			continue;
		session->triggers->hits++;
		session->triggers->last = spec->trigger;
		return 0;
	}
	return 0;
}

void triggers_look(struct wm_session *session, int process, const void *content, size_t bytes)
{
	/* the program may change its pages meanwhile, and a string would have no end */
	unsigned char copy[STORE_PAGE_BYTES];

	if (!session->triggers->count || bytes > sizeof(copy))
		return;
	memcpy(copy, content, bytes);
	trace_packet_each(session->writer, process, copy, bytes, look_at, session);
}
