/* SPDX-License-Identifier: MIT */
#include "inside/marker/spans.h"

#include "inside/marker/cost.h"
#include "inside/marker/marker.h"
#include "inside/marker/predicates.h"
#include "inside/runtime/heap.h"
#include "inside/store/thread_writer.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

/* A span as one event: its variant, and what that leads to. */
struct span {
	struct variant variant;
	struct site site;
	struct plan_span pair;
	char text[];
};

static unsigned int payload_bytes(const uint8_t types[16])
{
	unsigned int bytes = 0;

	for (unsigned int i = 0; i < 16 && types[i]; i++)
		bytes += field_bytes(types[i]);
	return bytes;
}

/* The begin's text with the fields of both and the duration. Returns where its fields are. */
static size_t text_make(char *text, const struct variant *begin, const struct variant *end)
{
	const struct site *site = begin->sites;
	const char *fields[] = { begin->fields, end->fields };
	char *to = text + site->fields_at;

	memcpy(text, site->text, site->fields_at);
	text[0] = 'm';
	for (int i = 0; i < 2; i++)
		if (types_count(i ? end->types : begin->types))
			to = stpcpy(stpcpy(to, fields[i]), ", ");
	strcpy(to, PREDICATE_DURATION);
	return site->fields_at;
}

/* 0; -ENOMEM. One whose text no message has room for is left out: it has no duration. */
static int pair_make(struct variant *begin, struct variant *end)
{
	unsigned int firsts = types_count(begin->types), seconds = types_count(end->types);
	size_t room = begin->sites->fields_at + strlen(begin->fields) + strlen(end->fields) +
		      sizeof(", , " PREDICATE_DURATION);
	struct span *span;

	if (room > SITE_TEXT_MAX)
		return 0;
	span = heap_alloc(sizeof *span + room);
	if (!span)
		return -ENOMEM;
	span->site = (struct site){ .kind = SPAN_KIND,
				    .name_bytes = begin->sites->name_bytes,
				    .text = span->text,
				    .variant = &span->variant };
	span->site.fields_at = (uint32_t)text_make(span->text, begin, end);
	span->site.text_bytes = (uint32_t)strlen(span->text) + 1;
	if (firsts + seconds < sizeof span->site.types) {
		memcpy(span->site.types, begin->types, firsts);
		memcpy(span->site.types + firsts, end->types, seconds);
		span->site.types[firsts + seconds] = WM_TYPE_U64;
	}
	span->pair = (struct plan_span){ .begin = &begin->hit,
					 .whole = &span->variant.hit,
					 .next = end->spans,
					 .begin_bytes = (uint16_t)payload_bytes(begin->types) };
	span->variant = (struct variant){ .name = begin->name,
					  .kind = SPAN_KIND,
					  .level = begin->level,
					  .fields = span->text + span->site.fields_at,
					  .predicate_first = (uint8_t)firsts,
					  .number = COUNTERS_MAX + 1,
					  .sites = &span->site,
					  .site_count = 1,
					  .begin = begin,
					  .end = end };
	memcpy(span->variant.types, span->site.types, sizeof span->variant.types);
	end->spans = &span->pair;
	begin->is_half = end->is_half = 1;
	registry_add(&span->variant);
	return 0;
}

static int has_pair(const struct variant *begin, const struct variant *end)
{
	const struct plan_span *pair = end->spans;

	while (pair && pair->begin != &begin->hit)
		pair = pair->next;
	return pair != NULL;
}

int spans_make(unsigned int lane)
{
	struct variant *end;
	int error = 0;

	for (const struct variant *v = registry_first(); v && !error; v = v->next) {
		if (v->kind != 'b' || !v->sites || !predicates_span(v, lane))
			continue;
		for (end = NULL; !error && (end = registry_next_named(end, v->name));)
			if (end->kind == 'e' && !has_pair(v, end) && predicates_span(end, lane))
				error = pair_make((struct variant *)v, end);
	}
	return error;
}

enum span_half span_half(const struct variant *variant, unsigned int lane)
{
	if (!variant->is_half || !predicates_span(variant, lane))
		return SPAN_NO_HALF;
	return predicates_span_alone(variant, lane) ? SPAN_HALF : SPAN_HALF_TOO;
}

int span_check(const struct variant *span, unsigned int lane)
{
	unsigned int callers, costs = cost_wanted(lane, span->name, &callers), texts = 0;

	for (unsigned int i = 0; i < span->predicate_first; i++)
		texts += span->begin->types[i] == WM_TYPE_STR ||
			 field_is_run(span->begin->types[i]);
	return costs || texts > DETOUR_KEPT_TEXTS || !span->types[0] ||
			       payload_bytes(span->types) > KEPT_PAYLOAD_BYTES
		       ? -ENOTSUP
		       : 0;
}
