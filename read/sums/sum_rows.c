/* SPDX-License-Identifier: MIT */
#include "read/sums/sum_rows.h"

#include "base/array.h"
#include "base/name_match.h"
#include "read/pass/format.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/marker.h>

static const char *const prefixes[SUM_AS_COUNT] = SUM_PREFIXES;

enum sum_as sums_field(const struct sums_class *of, unsigned int field, const char **name)
{
	const char *is = of->class->fields[field];

	*name = is;
	if (field == of->keys)
		return SUM_AS_COUNT;
	for (unsigned int as = SUM_HIST; as < SUM_AS_COUNT; as++) {
		size_t bytes = strlen(prefixes[as]);

		/* the bucket is the last of what it is added up by */
		if ((as == SUM_HIST) != (field + 1 == of->keys && field < of->keys) ||
		    (as > SUM_HIST && field < of->keys) || strncmp(is, prefixes[as], bytes) != 0)
			continue;
		*name = is + bytes;
		return (enum sum_as)as;
	}
	return SUM_BY;
}

int sums_has_buckets(const struct sums_class *class)
{
	const char *name;

	return class->keys && sums_field(class, class->keys - 1, &name) == SUM_HIST;
}

static int class_like(const struct trace_class *a, const struct trace_class *b)
{
	if (a->name_bytes != b->name_bytes || strcmp(a->name, b->name) != 0 ||
	    a->count != b->count || memcmp(a->types, b->types, sizeof(a->types)) != 0)
		return 0;
	for (unsigned int i = 0; i < a->count; i++)
		if (strcmp(a->fields[i], b->fields[i]) != 0)
			return 0;
	return 1;
}

static int is_sum(const char *field)
{
	for (unsigned int as = SUM_SUM; as < SUM_AS_COUNT; as++)
		if (!strncmp(field, prefixes[as], strlen(prefixes[as])))
			return 1;
	return 0;
}

/* The count is found from the end: a field of the event may be called so, too. */
int sums_keys(const struct trace_class *class)
{
	unsigned int keys = class->count;

	while (keys && is_sum(class->fields[keys - 1]))
		keys--;
	if (!keys-- || strncmp(class->fields[keys], SUM_COUNT, strlen(SUM_COUNT)) != 0 ||
	    class->types[keys] != WM_TYPE_U64 || class->count - keys > 1 + SUM_FIELDS_MAX)
		return -1;
	for (unsigned int i = keys + 1; i < class->count; i++)
		if (class->types[i] != WM_TYPE_U64 && class->types[i] != WM_TYPE_I64)
			return -1;
	for (unsigned int i = 0; i < keys; i++)
		if (class->types[i] == WM_TYPE_BYTES || class->types[i] & WM_TYPE_ARRAY)
			return -1;
	return (int)keys;
}

const char *sums_name(const struct trace_class *class, char text[SUMS_NAME_BYTES])
{
	snprintf(text, SUMS_NAME_BYTES, "%.*s", (int)(strlen(class->name) - strlen(":sum")),
		 class->name);
	return text;
}

/* The number + 1 of a class's; 0: it has no rows that are wanted; -ENOMEM. */
static int class_take(struct sums *sums, const struct trace_class *class)
{
	int keys = sums_has(class) ? sums_keys(class) : -1;
	const char *event = sums->wish.event;
	char name[SUMS_NAME_BYTES];
	struct sums_class *to;

	if (keys < 0 || (event && !name_match_marker(event, sums_name(class, name))))
		return 0;
	for (size_t i = 0; i < sums->class_count; i++)
		if (class_like(sums->classes[i].class, class))
			return (int)i + 1;
	if (array_grow(&sums->classes, &sums->class_room, sums->class_count + 1,
		       sizeof(*sums->classes)))
		return -ENOMEM;
	to = &sums->classes[sums->class_count++];
	*to = (struct sums_class){ .class = class, .keys = (unsigned int)keys };
	for (int i = 0; i < keys; i++)
		to->has_addresses |= class->types[i] == WM_TYPE_ADDRESSES ||
				     class->types[i] == WM_TYPE_PTR;
	return (int)sums->class_count;
}

static int wants(const struct pass_observer *observer, uint32_t process,
		 const struct trace_class *class)
{
	const struct sums *sums = (const void *)observer;

	return sums->class_of[process] && sums->class_of[process][class->index] != 0;
}

/* A row for these values, with no hits yet. Its number, or -ENOMEM. */
static int64_t row_add(struct sums *sums, const struct sums_row *like, const uint8_t *key)
{
	const struct sums_class *of = &sums->classes[like->class];
	struct sums_row *row;
	const char *name;

	if (array_grow(&sums->rows, &sums->room, sums->count + 1, sizeof(*sums->rows)) ||
	    array_grow(&sums->keys, &sums->key_room, sums->key_bytes + like->key_bytes, 1))
		return -ENOMEM;
	row = &sums->rows[sums->count];
	*row = *like;
	row->key = sums->key_bytes;
	memcpy(sums->keys + sums->key_bytes, key, like->key_bytes);
	sums->key_bytes += like->key_bytes;
	for (unsigned int i = of->keys + 1; i < of->class->count; i++) {
		int is_signed = of->class->types[i] == WM_TYPE_I64;
		uint64_t most = is_signed ? INT64_MAX : UINT64_MAX;
		enum sum_as as = sums_field(of, i, &name);

		row->values[i - of->keys - 1] = as == SUM_MIN	? most
						: as == SUM_MAX ? (is_signed ? ~most : 0)
								: 0;
	}
	return (int64_t)sums->count++;
}

/* The row of an event's values. Its number, or -ENOMEM. */
static int64_t row_of(struct sums *sums, const struct sums_row *like, const uint8_t *key)
{
	uint32_t hash = slots_hash_bytes((const char *)key, like->key_bytes) ^
			slots_hash((uint64_t)like->process << 32 | like->class) ^
			slots_hash(like->interval << 1 | (uint64_t)like->is_other),
		 number;
	struct sums_row other = *like;
	int64_t made;

	if (slots_fit(&sums->slots))
		return -ENOMEM;
	for (uint64_t at = hash; slots_next(&sums->slots, hash, &at, &number);) {
		const struct sums_row *row = &sums->rows[number];

		if (row->class == like->class && row->process == like->process &&
		    row->interval == like->interval && row->is_other == like->is_other &&
		    row->key_bytes == like->key_bytes &&
		    !memcmp(sums->keys + row->key, key, like->key_bytes))
			return number;
	}
	if (sums->count >= SUMS_ROWS_MAX && !like->is_other) {
		/* the bucket alone is left of its values */
		other.is_other = 1;
		other.process = 0;
		other.key_bytes = sums_has_buckets(&sums->classes[like->class]) ? 8 : 0;
		return row_of(sums, &other, key + like->key_bytes - other.key_bytes);
	}
	made = row_add(sums, like, key);
	if (made >= 0)
		slots_add(&sums->slots, hash, (uint32_t)made);
	return made;
}

void sums_values_add(const struct sums_class *of, uint64_t *to, const uint64_t *values)
{
	const char *name;

	for (unsigned int i = of->keys + 1; i < of->class->count; i++, to++, values++) {
		int is_signed = of->class->types[i] == WM_TYPE_I64;
		int is_less = is_signed ? (int64_t)*values < (int64_t)*to : *values < *to;
		enum sum_as as = sums_field(of, i, &name);

		if (as == SUM_SUM)
			*to += *values;
		else if (is_less == (as == SUM_MIN))
			*to = *values;
	}
}

static int take(struct pass_observer *observer, const struct merge_event *event)
{
	struct sums *sums = (void *)observer;
	struct sums_row like = { .process = event->stream->process };
	const struct trace_stream *stream = event->stream;
	const struct sums_wish *wish = &sums->wish;
	uint64_t values[1 + SUM_FIELDS_MAX];
	const struct sums_class *of;
	const uint8_t *end = event->fields;
	struct sums_row *row;
	int64_t number;

	if (!event->class || !sums->class_of[like.process] ||
	    !sums->class_of[like.process][event->class->index] ||
	    (wish->pid && stream->pid != wish->pid) || (wish->tid && stream->tid != wish->tid))
		return 0;
	if (wish->every_ns && event->ns > sums->begin_ns)
		like.interval = (event->ns - sums->begin_ns) / wish->every_ns;
	like.class = sums->class_of[like.process][event->class->index] - 1;
	of = &sums->classes[like.class];
	if (!of->has_addresses)
		like.process = 0;
	for (unsigned int i = 0; i < of->keys; i++)
		end = format_field_end(of->class->types[i], end);
	like.key_bytes = (uint32_t)(end - event->fields);
	number = row_of(sums, &like, event->fields);
	if (number < 0)
		return (int)number;
	row = &sums->rows[number];
	row->last_ns = event->ns;
	memcpy(values, end, (of->class->count - of->keys) * sizeof(*values));
	row->count += values[0];
	sums_values_add(of, row->values, values + 1);
	return 0;
}

int sums_open(struct sums *sums, const struct trace_reader *reader, const struct sums_wish *wish)
{
	uint32_t count = reader->meta.process_count;

	*sums = (struct sums){ .observer = { wants, take }, .reader = reader };
	sums->wish = wish ? *wish : sums->wish;
	sums->begin_ns = reader_begin_ns(reader);
	sums->class_of = calloc(count + 1u, sizeof(*sums->class_of));
	for (uint32_t i = 0; sums->class_of && i < count; i++) {
		const struct trace_schema *schema = reader->meta.processes[i].schema;

		if (!schema)
			continue;
		sums->class_of[i] = calloc(schema->count + 1u, sizeof(**sums->class_of));
		for (uint32_t j = 0; sums->class_of[i] && j < schema->count; j++) {
			int number = class_take(sums, schema->classes[j]);

			if (number < 0)
				return number;
			sums->class_of[i][j] = (uint32_t)number;
		}
		if (!sums->class_of[i])
			return -ENOMEM;
	}
	return sums->class_of ? 0 : -ENOMEM;
}

void sums_release(struct sums *sums)
{
	for (uint32_t i = 0; sums->class_of && i < sums->reader->meta.process_count; i++)
		free(sums->class_of[i]);
	free(sums->class_of);
	free(sums->classes);
	free(sums->rows);
	free(sums->keys);
	free(sums->slots.all);
	*sums = (struct sums){ 0 };
}
