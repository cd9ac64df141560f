/* SPDX-License-Identifier: MIT */
#include "cli/sums_lines.h"

#include "base/array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/marker.h>

#define BUCKETS 256
#define HISTOGRAMS_MAX 65536u /* 2 KiB each */
#define BAR_WIDTH 40
#define NONE SUM_FIELDS_MAX /* in place of a number of values[] */

static const struct row_column sum_columns[] = {
	{ "from", ROW_U64, ROW_SINCE, 0, "the interval's begin (--every); else null" },
	{ "count", ROW_U64, ROW_COUNT, 0, "hits" },
	{ "field", ROW_TEXT, ROW_PLAIN, 0, "that the next are of; null: none" },
	{ "sum", ROW_S64, ROW_PLAIN, 0, "of sum= and avg=" },
	{ "mean", ROW_DOUBLE, ROW_PLAIN, 0, "likewise" },
	{ "min", ROW_S64, ROW_PLAIN, 0, "of min=" },
	{ "max", ROW_S64, ROW_PLAIN, 0, "of max=" },
	{ "p50", ROW_U64, ROW_PLAIN, 0,
	  "of hist=: the median, a quarter too low at most; null: below 0" },
	{ "p99", ROW_U64, ROW_PLAIN, 0, "the 99th percentile, likewise" },
	{ "other", ROW_U64, ROW_COUNT, ROW_DETAIL,
	  "so many different values in one row; else null" },
	{ "event", ROW_TEXT, ROW_PLAIN, 0, "SUBSYSTEM:EVENT of a marker or a probe" },
	{ "fields", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "those of by=; null: none" },
	{ "by", ROW_TEXT, ROW_PLAIN, ROW_QUOTED, "the values of these fields" },
};
static ROW_TABLE(report_sum_table, "sum", "Sums in place of events, the greatest first.",
		 sum_columns);

static const struct row_column bucket_columns[] = {
	{ "from", ROW_U64, ROW_PLAIN, 0, "the least value; null: what is below 0" },
	{ "to", ROW_U64, ROW_PLAIN, 0, "one past the greatest" },
	{ "count", ROW_U64, ROW_COUNT, 0, "hits between the two" },
	{ "bar", ROW_TEXT, ROW_PLAIN, ROW_FOR_TEXT, "the same" },
	{ "field", ROW_TEXT, ROW_PLAIN, 0, "that of hist=" },
	{ "event", ROW_TEXT, ROW_PLAIN, 0, "SUBSYSTEM:EVENT of a marker or a probe" },
	{ "by", ROW_TEXT, ROW_PLAIN, ROW_QUOTED, "the values of the fields of by=" },
};
static ROW_TABLE(report_bucket_table, "sum_bucket", "How often each size of value came (hist=).",
		 bucket_columns);

/* ---- adding up ---- */

/* The first is for all that is below 0. */
static unsigned int bucket_number(const struct sums_class *class, uint64_t value)
{
	unsigned int shift = value < 8 ? 0 : 61 - (unsigned int)__builtin_clzll(value);

	if (class->class->types[class->keys - 1] == WM_TYPE_I64 && (int64_t)value < 0)
		return 0;
	return 1 + shift * 4 + (unsigned int)(value >> shift);
}

static uint64_t bucket_least(unsigned int number)
{
	number--;
	return number < 8 ? number : (uint64_t)(4 + number % 4) << (number / 4 - 1);
}

/* One more line, for a part of the first. NULL: no memory. */
static struct sums_line *line_new(struct sums_lines *lines, const struct sums_part *part)
{
	struct sums_line *line;

	if (array_grow(&lines->all, &lines->room, lines->count + 1, sizeof(*lines->all)))
		return NULL;
	line = &lines->all[lines->count];
	*line = (struct sums_line){ .interval = part->interval, .class = part->class };
	memcpy(line->values, part->values, sizeof(line->values));
	if (sums_has_buckets(&lines->classes[part->class])) {
		line->buckets = calloc(BUCKETS, sizeof(*line->buckets));
		if (!line->buckets)
			return NULL;
	}
	lines->count++;
	return line;
}

static const char *text_of(const struct sums_lines *lines, const struct sums_line *line)
{
	return lines->texts.at + line->by;
}

int sums_lines_add(struct sums_lines *lines, size_t by, const struct sums_part *part)
{
	const struct sums_class *class = &lines->classes[part->class];
	const char *text = lines->texts.at + by;
	struct sums_line *line = NULL;
	uint32_t hash, number;
	size_t most;

	if (lines->texts.error || slots_fit(&lines->slots))
		return -ENOMEM;
	hash = slots_hash_text(text) ^ slots_hash(part->class) ^ slots_hash(part->interval << 32);
	for (uint64_t at = hash; !line && slots_next(&lines->slots, hash, &at, &number);) {
		struct sums_line *other = &lines->all[number];

		if (other->class == part->class && other->interval == part->interval &&
		    !strcmp(text_of(lines, other), text))
			line = other;
	}
	most = lines->most ? lines->most : SIZE_MAX;
	if (most > HISTOGRAMS_MAX && sums_has_buckets(class))
		most = HISTOGRAMS_MAX;
	if (!line && lines->count >= most && strcmp(text, SUMS_OTHER) != 0) {
		lines->texts.bytes = by;
		text_add(&lines->texts, SUMS_OTHER, sizeof(SUMS_OTHER));
		return sums_lines_add(lines, by, part);
	}
	if (line) {
		lines->texts.bytes = by;
		sums_values_add(class, line->values, part->values);
	} else {
		line = line_new(lines, part);
		if (!line)
			return -ENOMEM;
		line->by = by;
		slots_add(&lines->slots, hash, (uint32_t)(lines->count - 1));
	}
	line->count += part->count;
	if (line->buckets)
		line->buckets[bucket_number(class, part->bucket)] += part->count;
	return 0;
}

void sums_lines_clear(struct sums_lines *lines)
{
	for (size_t i = 0; i < lines->count; i++)
		free(lines->all[i].buckets);
	free(lines->all);
	free(lines->slots.all);
	text_release(&lines->texts);
	*lines = (struct sums_lines){ .classes = lines->classes,
				      .every_ns = lines->every_ns,
				      .most = lines->most };
}

/* ---- order ---- */

/* The number of the first value that is a sum, or NONE. */
static unsigned int first_sum(const struct sums_class *class)
{
	const char *name;

	for (unsigned int i = class->keys + 1; i < class->class->count; i++)
		if (sums_field(class, i, &name) == SUM_SUM)
			return i - class->keys - 1;
	return NONE;
}

static double weight_of(const struct sums_lines *lines, const struct sums_line *line)
{
	const struct sums_class *class = &lines->classes[line->class];
	unsigned int at = first_sum(class);

	if (at == NONE)
		return (double)line->count;
	return class->class->types[class->keys + 1 + at] == WM_TYPE_I64
		       ? (double)(int64_t)line->values[at]
		       : (double)line->values[at];
}

static int is_together(const struct sums_line *a, const struct sums_line *b)
{
	return a->class == b->class && a->interval == b->interval;
}

static int line_order(const void *a, const void *b, void *data)
{
	const struct sums_lines *lines = data;
	const struct sums_line *left = a, *right = b;
	double x = weight_of(lines, left), y = weight_of(lines, right);
	int is_other = !strcmp(text_of(lines, left), SUMS_OTHER);
	int other_is = !strcmp(text_of(lines, right), SUMS_OTHER);

	if (left->interval != right->interval)
		return left->interval < right->interval ? -1 : 1;
	if (left->class != right->class)
		return left->class < right->class ? -1 : 1;
	if (is_other != other_is)
		return is_other - other_is;
	if (x != y)
		return x > y ? -1 : 1;
	return strcmp(text_of(lines, left), text_of(lines, right));
}

void sums_lines_sort(struct sums_lines *lines)
{
	if (lines->count)
		qsort_r(lines->all, lines->count, sizeof(*lines->all), line_order, lines);
}

int sums_lines_cut(struct sums_lines *lines, uint64_t shown)
{
	size_t kept = 0, together = 0, rest = 0;

	for (size_t i = 0; i < lines->count; i++) {
		struct sums_line *line = &lines->all[i];
		struct sums_line *to = &lines->all[rest];

		together = kept && is_together(line, &lines->all[kept - 1]) ? together + 1 : 1;
		if (together <= shown + 1) {
			rest = kept;
			lines->all[kept++] = *line;
			continue;
		}
		if (!to->different) {
			to->different = 1;
			to->by = lines->texts.bytes;
			text_add(&lines->texts, SUMS_OTHER, sizeof(SUMS_OTHER));
		}
		sums_values_add(&lines->classes[line->class], to->values, line->values);
		to->count += line->count;
		to->different++;
		for (unsigned int k = 0; line->buckets && k < BUCKETS; k++)
			to->buckets[k] += line->buckets[k];
		free(line->buckets);
		line->buckets = NULL;
	}
	lines->count = kept;
	return lines->texts.error;
}

/* ---- printing ---- */

static int is_signed(const struct sums_class *class, unsigned int at)
{
	return class->class->types[class->keys + 1 + at] == WM_TYPE_I64;
}

static struct row_value number_of(const struct sums_class *class, unsigned int at,
				  const struct sums_line *line, int is_time)
{
	uint64_t value = line->values[at];
	struct row_value cell = is_signed(class, at) ? row_s64((int64_t)value) : row_u64(value);

	return is_time ? row_in(cell, ROW_NS) : cell;
}

static struct row_value mean_of(const struct sums_class *class, unsigned int at,
				const struct sums_line *line, int is_time)
{
	uint64_t value = line->values[at];
	double sum = is_signed(class, at) ? (double)(int64_t)value : (double)value;
	struct row_value cell;

	if (!line->count)
		return row_null();
	cell = row_double(sum / (double)line->count);
	return is_time ? row_in(cell, ROW_NS) : cell;
}

/* The least value of the bucket that the share of all hits is in; of what is below 0 none. */
static struct row_value quantile_of(const struct sums_line *line, double share, int is_time)
{
	uint64_t before = 0;
	unsigned int i = 0;

	while (i + 1 < BUCKETS && (double)(before + line->buckets[i]) < share * (double)line->count)
		before += line->buckets[i++];
	if (!i)
		return row_null();
	return is_time ? row_in(row_u64(bucket_least(i)), ROW_NS) : row_u64(bucket_least(i));
}

/* A probe's is in ns; a marker's field may be called so, and be in anything. */
static int is_time_of(const struct sums_class *class, const char *field)
{
	return class->class->way != 'j' && class->class->way != 'p' && field &&
	       !strcmp(field, "duration");
}

/* The numbers of the values of a field, as it is summed, its least, its greatest; NONE. */
static void fields_find(const struct sums_class *class, const char *field,
			unsigned int at[SUM_AS_COUNT])
{
	const char *name;

	for (unsigned int as = 0; as < SUM_AS_COUNT; as++)
		at[as] = NONE;
	for (unsigned int i = class->keys + 1; i < class->class->count; i++) {
		enum sum_as as = sums_field(class, i, &name);

		if (field && !strcmp(name, field))
			at[as] = i - class->keys - 1;
	}
}

/* "caller+cpu" */
static const char *keys_text(const struct sums_class *class, char text[256])
{
	const char *name;

	text[0] = 0;
	for (unsigned int i = 0; i < class->keys; i++)
		if (sums_field(class, i, &name) != SUM_HIST)
			snprintf(text + strlen(text), 256 - strlen(text), "%s%s", i ? "+" : "",
				 name);
	return text;
}

/* One row for a field of a line, or for none. */
static void row_put(const struct sums_lines *lines, struct rows *rows, const struct sums_line *line,
		    const char *field)
{
	const struct sums_class *class = &lines->classes[line->class];
	const char *hist = NULL;
	unsigned int at[SUM_AS_COUNT];
	int is_time = is_time_of(class, field), is_hist;
	char keys[256], event[SUMS_NAME_BYTES];

#define VALUE(as) (at[as] == NONE ? row_null() : number_of(class, at[as], line, is_time))
	fields_find(class, field, at);
	if (line->buckets)
		sums_field(class, class->keys - 1, &hist);
	is_hist = hist && field && !strcmp(hist, field);
	ROWS_PUT(rows, sum_columns,
		 lines->every_ns ? row_u64(line->interval * lines->every_ns) : row_null(),
		 row_u64(line->count), row_text(field), VALUE(SUM_SUM),
		 at[SUM_SUM] == NONE ? row_null() : mean_of(class, at[SUM_SUM], line, is_time),
		 VALUE(SUM_MIN), VALUE(SUM_MAX),
		 is_hist ? quantile_of(line, 0.5, is_time) : row_null(),
		 is_hist ? quantile_of(line, 0.99, is_time) : row_null(),
		 row_known(line->different), row_text(sums_name(class->class, event)),
		 row_words(keys_text(class, keys)), row_words(text_of(lines, line)));
#undef VALUE
}

/* The next field of a class from *at on that has a row of its own; NULL: none. */
static const char *field_next(const struct sums_class *class, unsigned int *at)
{
	unsigned int first = class->keys - (unsigned int)sums_has_buckets(class);
	const char *name, *before;

	for (*at = *at < first ? first : *at; *at < class->class->count; ++*at) {
		int is_new = sums_field(class, *at, &name) != SUM_AS_COUNT;

		for (unsigned int i = first; i < *at && is_new; i++)
			is_new = sums_field(class, i, &before) == SUM_AS_COUNT ||
				 strcmp(name, before) != 0;
		if (!is_new)
			continue;
		++*at;
		return name;
	}
	return NULL;
}

/* The rows of a line: their number, or, with `rows`, put. */
static size_t line_rows(const struct sums_lines *lines, const struct sums_line *line,
			struct rows *rows)
{
	const char *field;
	unsigned int at = 0;
	size_t count = 0;

	while ((field = field_next(&lines->classes[line->class], &at)) || !count) {
		if (rows)
			row_put(lines, rows, line, field);
		count++;
		if (!field)
			break;
	}
	return count;
}

size_t sums_lines_rows(const struct sums_lines *lines)
{
	size_t count = 0;

	for (size_t i = 0; i < lines->count; i++)
		count += line_rows(lines, &lines->all[i], NULL);
	return count;
}

void sums_lines_put(const struct sums_lines *lines, struct rows *rows, size_t count)
{
	rows_open(rows, &report_sum_table, &(struct rows_layout){ .last = count });
	for (size_t i = 0; i < lines->count && count; i++)
		line_rows(lines, &lines->all[i], rows);
	rows_close(rows);
}

void sums_lines_put_buckets(const struct sums_lines *lines, struct rows *rows)
{
	static const char bar[BAR_WIDTH + 1] = "########################################";

	rows_open(rows, &report_bucket_table, NULL);
	for (size_t i = 0; i < lines->count; i++) {
		const struct sums_line *line = &lines->all[i];
		const struct sums_class *class = &lines->classes[line->class];
		uint64_t most = 1;
		const char *name;
		char event[SUMS_NAME_BYTES];
		int is_time;

		if (!line->buckets)
			continue;
		sums_field(class, class->keys - 1, &name);
		is_time = is_time_of(class, name);
		for (unsigned int k = 0; k < BUCKETS; k++)
			most = line->buckets[k] > most ? line->buckets[k] : most;
		for (unsigned int k = 0; k < BUCKETS; k++) {
			double filled = (double)line->buckets[k] * BAR_WIDTH / (double)most;
			uint64_t least = k ? bucket_least(k) : 0;
			uint64_t end = k ? sum_bucket_end(least) : 0;

			if (line->buckets[k])
				ROWS_PUT(rows, bucket_columns,
					 k ? row_in(row_u64(least), is_time ? ROW_NS : ROW_PLAIN)
					   : row_null(),
					 row_in(row_u64(end), is_time ? ROW_NS : ROW_PLAIN),
					 row_u64(line->buckets[k]),
					 row_text(bar + BAR_WIDTH - (int)(filled + 0.5)),
					 row_text(name), row_text(sums_name(class->class, event)),
					 row_words(text_of(lines, line)));
		}
	}
	rows_close(rows);
}
