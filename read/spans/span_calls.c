/* SPDX-License-Identifier: MIT */
#include "read/spans/span_calls.h"

#include "base/array.h"
#include "base/name_match.h"
#include "read/pass/format.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define FLAG_WANTED 1 /* its name is wanted */
#define FLAG_EDGE 2   /* its callers and callees are */
#define VALUE_BYTES 512u

/* Of values for which there was no room. */
static const char rest[] = "(other)";

/* ---- values of fields ---- */

/* Words for the thread itself. */
static const char *const words[] = { "thread", "comm", "tid", "pid" };

#define WORDS (sizeof(words) / sizeof(words[0]))

static const char *value_keep(struct span_calls *calls, const char *text, size_t bytes)
{
	const char *kept = texts_keep(&calls->values, text,
				      bytes < VALUE_BYTES ? bytes : VALUE_BYTES);

	return kept ? kept : rest;
}

static const char *word_value(struct span_calls *calls, const char *word,
			      const struct trace_stream *stream)
{
	char text[64];
	int bytes;

	if (!strcmp(word, "thread"))
		bytes = snprintf(text, sizeof(text), "%s-%u", stream->comm, stream->tid);
	else if (!strcmp(word, "comm"))
		bytes = snprintf(text, sizeof(text), "%s", stream->comm);
	else
		bytes = snprintf(text, sizeof(text), "%u",
				 *word == 't' ? stream->tid : stream->pid);
	return value_keep(calls, text, (size_t)bytes);
}

/* As it is printed; a string as it is. */
static const char *field_value(struct span_calls *calls, const struct trace_class *class,
			       unsigned int field, const uint8_t *at)
{
	struct out *out = calls->out;

	if (class->types[field] == WM_TYPE_STR && (*at == FIELD_WHOLE || *at == FIELD_CUT))
		return value_keep(calls, (const char *)at + 1, strlen((const char *)at + 1));
	out->at = out->bytes;
	format_value(out, class, field, at);
	return value_keep(calls, out->bytes, (size_t)(out->at - out->bytes));
}

static int is_word(const char *name)
{
	size_t i = 0;

	while (i < WORDS && strcmp(name, words[i]) != 0)
		i++;
	return i < WORDS;
}

void span_calls_note(struct span_calls *calls, const struct span_pairs *pairs,
		     struct span_half *half)
{
	const struct span_wish *wish = &calls->wish;
	const struct trace_class *class = pairs->class;
	const uint8_t *at = pairs->fields;

	half->place = pairs->place;
	memset(half->fields, 0, sizeof(half->fields));
	if (!wish->by_count || !(calls->flags[half->span] & FLAG_WANTED))
		return;
	for (unsigned int i = 0; i < class->count; i++) {
		for (unsigned int k = 0; k < wish->by_count; k++)
			if (!strcmp(class->fields[i], wish->by[k]))
				half->fields[k] = field_value(calls, class, i, at);
		at = format_field_end(class->types[i], at);
	}
	for (unsigned int k = 0; k < wish->by_count; k++)
		if (!half->fields[k] && is_word(wish->by[k]))
			half->fields[k] = word_value(calls, wish->by[k],
						     &calls->reader->streams[half->place.stream]);
}

int span_calls_has(const struct trace_reader *reader, const char *field)
{
	const struct facts *meta = &reader->meta;

	for (uint32_t i = 0; i < meta->process_count; i++) {
		const struct trace_schema *schema = meta->processes[i].schema;

		for (uint32_t j = 0; schema && j < schema->count; j++) {
			const struct trace_class *class = schema->classes[j];

			for (unsigned int k = 0; strchr("be", class->kind) && k < class->count; k++)
				if (!strcmp(class->fields[k], field))
					return 1;
		}
	}
	return is_word(field);
}

/* ---- groups ---- */

static uint32_t group_hash(uint32_t span, const char *const values[SPAN_BY_MAX])
{
	uint64_t key = span;

	for (unsigned int k = 0; k < SPAN_BY_MAX; k++)
		key = (key ^ (uintptr_t)values[k] >> 3) * 0x9e3779b97f4a7c15ull;
	return slots_hash(key);
}

static struct span_group *group_find(struct span_calls *calls, uint32_t span,
				     const char *const values[SPAN_BY_MAX], int is_rest)
{
	uint32_t hash = group_hash(span, values), number;
	struct span_group *group;

	if (slots_fit(&calls->group_slots))
		return NULL;
	for (uint64_t at = hash; slots_next(&calls->group_slots, hash, &at, &number);) {
		group = &calls->groups[number];
		if (group->span == span && !memcmp(group->values, values, sizeof(group->values)))
			return group;
	}
	if (!is_rest && calls->group_count >= SPAN_GROUPS_MAX) {
		const char *const others[SPAN_BY_MAX] = { rest, rest, rest };

		return group_find(calls, span, others, 1);
	}
	if (array_grow(&calls->groups, &calls->group_room, calls->group_count + 1,
		       sizeof(*calls->groups)))
		return NULL;
	group = &calls->groups[calls->group_count];
	*group = (struct span_group){ .span = span, .times = calloc(1, sizeof(*group->times)) };
	memcpy(group->values, values, sizeof(group->values));
	if (!group->times)
		return NULL;
	slots_add(&calls->group_slots, hash, (uint32_t)calls->group_count++);
	return group;
}

static void group_add(struct span_calls *calls, const struct span_half *begin,
		      const struct span_half *end, uint64_t ticks, uint64_t self_ticks)
{
	const char *values[SPAN_BY_MAX];
	struct span_group *group;

	for (unsigned int k = 0; k < SPAN_BY_MAX; k++)
		values[k] = begin->fields[k] ? begin->fields[k] : end->fields[k];
	group = group_find(calls, begin->span, values, 0);
	if (!group) {
		calls->error = -ENOMEM;
		return;
	}
	summary_time_add(group->times, ticks);
	group->self_ticks += self_ticks;
}

/* ---- callers and callees ---- */

static void edge_add(struct span_calls *calls, uint32_t caller, uint32_t callee, uint64_t ticks,
		     uint64_t self_ticks)
{
	uint32_t hash = slots_hash((uint64_t)caller << 32 | callee), number;
	struct span_edge *edge = NULL;

	if (slots_fit(&calls->edge_slots) ||
	    array_grow(&calls->edges, &calls->edge_room, calls->edge_count + 1,
		       sizeof(*calls->edges))) {
		calls->error = -ENOMEM;
		return;
	}
	for (uint64_t at = hash; !edge && slots_next(&calls->edge_slots, hash, &at, &number);)
		if (calls->edges[number].caller == caller && calls->edges[number].callee == callee)
			edge = &calls->edges[number];
	if (!edge) {
		slots_add(&calls->edge_slots, hash, (uint32_t)calls->edge_count);
		edge = &calls->edges[calls->edge_count++];
		*edge = (struct span_edge){ .caller = caller, .callee = callee };
	}
	edge->count++;
	edge->ticks += ticks;
	edge->self_ticks += self_ticks;
	edge->max_ticks = ticks > edge->max_ticks ? ticks : edge->max_ticks;
}

/* ---- the slowest ---- */

/* The heap's element at `place` may be slower than those below it. */
static void slow_sink(struct span_calls *calls, size_t place)
{
	struct span_slow moved = calls->slow[place];

	for (;;) {
		size_t child = place * 2 + 1;

		if (child >= calls->slow_count)
			break;
		if (child + 1 < calls->slow_count &&
		    calls->slow[child + 1].ns < calls->slow[child].ns)
			child++;
		if (calls->slow[child].ns >= moved.ns)
			break;
		calls->slow[place] = calls->slow[child];
		place = child;
	}
	calls->slow[place] = moved;
}

static void slow_add(struct span_calls *calls, const struct span_slow *slow)
{
	size_t place = calls->slow_count;

	if (place == calls->wish.slowest) {
		if (slow->ns <= calls->slow[0].ns)
			return;
		calls->slow[0] = *slow;
		slow_sink(calls, 0);
		return;
	}
	if (array_grow(&calls->slow, &calls->slow_room, place + 1, sizeof(*calls->slow))) {
		calls->error = -ENOMEM;
		return;
	}
	calls->slow_count++;
	for (; place && calls->slow[(place - 1) / 2].ns > slow->ns; place = (place - 1) / 2)
		calls->slow[place] = calls->slow[(place - 1) / 2];
	calls->slow[place] = *slow;
}

static int by_time(const void *left, const void *right)
{
	const struct span_slow *a = left, *b = right;

	if (a->ns != b->ns)
		return a->ns > b->ns ? -1 : 1;
	return (a->begin_ticks > b->begin_ticks) - (a->begin_ticks < b->begin_ticks);
}

/* ---- all ---- */

void span_calls_add(struct span_calls *calls, const struct span_half *begin,
		    const struct span_half *end, uint32_t caller, uint64_t ticks,
		    uint64_t self_ticks)
{
	const struct span_wish *wish = &calls->wish;
	const struct trace_stream *stream = &calls->reader->streams[begin->place.stream];
	const struct summary_span *span = &calls->summary->spans[begin->span];
	uint64_t ns;

	if ((wish->pid && stream->pid != wish->pid) || (wish->tid && stream->tid != wish->tid))
		return;
	if (calls->flags[begin->span] & FLAG_EDGE ||
	    (caller != SPAN_NONE && calls->flags[caller] & FLAG_EDGE))
		edge_add(calls, caller, begin->span, ticks, self_ticks);
	ns = summary_span_ns(span, ticks);
	if (!(calls->flags[begin->span] & FLAG_WANTED) || ns < wish->min_ns)
		return;
	calls->fitting++;
	if (wish->has_groups)
		group_add(calls, begin, end, ticks, self_ticks);
	if (wish->slowest)
		slow_add(calls, &(struct span_slow){ .span = begin->span,
						     .ns = ns,
						     .self_ns = summary_span_ns(span, self_ticks),
						     .begin_ticks = begin->ticks,
						     .begin = begin->place,
						     .end = end->place });
}

int span_calls_open(struct span_calls *calls, const struct trace_reader *reader,
		    const struct summary *summary)
{
	const struct span_wish *wish = &calls->wish;

	calls->reader = reader;
	calls->summary = summary;
	calls->values.most = SPAN_VALUES_MAX;
	calls->out = malloc(sizeof(*calls->out));
	calls->flags = calloc(summary->span_count + 1ul, 1);
	if (!calls->flags || !calls->out)
		return -ENOMEM;
	out_init(calls->out, -1);
	for (uint32_t i = 0; i < summary->span_count; i++) {
		const char *name = summary->spans[i].name;

		if (!wish->name || name_match_marker(wish->name, name))
			calls->flags[i] |= FLAG_WANTED;
		if (wish->edges && name_match_marker(wish->edges, name))
			calls->flags[i] |= FLAG_EDGE;
	}
	return 0;
}

int span_calls_finish(struct span_calls *calls)
{
	if (calls->slow_count)
		qsort(calls->slow, calls->slow_count, sizeof(*calls->slow), by_time);
	return calls->error;
}

void span_calls_release(struct span_calls *calls)
{
	for (size_t i = 0; i < calls->group_count; i++)
		free(calls->groups[i].times);
	free(calls->groups);
	free(calls->edges);
	free(calls->slow);
	free(calls->flags);
	free(calls->out);
	free(calls->group_slots.all);
	free(calls->edge_slots.all);
	texts_release(&calls->values);
	*calls = (struct span_calls){ 0 };
}

int span_place_read(struct trace_reader *reader, const struct span_place *place,
		    const struct trace_class **class, const uint8_t **fields)
{
	struct trace_stream *stream = &reader->streams[place->stream];
	uint64_t offset = place->packet;
	struct trace_packet packet;
	int err = reader_stream_open(reader, stream);

	if (err)
		return err;
	if (!reader_stream_packet(reader, stream, &offset, &packet))
		return -WM_E_TRACE_DAMAGED;
	while (packet.walk.at < packet.walk.end &&
	       !reader_packet_event(&packet, stream_schema(reader, stream), class, fields))
		if (*fields == packet.bytes + place->at)
			return 0;
	return -WM_E_TRACE_DAMAGED;
}
