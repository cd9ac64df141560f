/* SPDX-License-Identifier: MIT */
#include "cli/watch_writers.h"

#include "base/array.h"
#include "cli/quantity.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define WHERE_BYTES WATCH_WHERE_BYTES
#define VALUE_BYTES (WATCH_VALUE_BYTES + 8)
#define BESIDE_WHERE 25u /* columns: of the count, the thread, and what is between */
#define WHERE_LEAST 10u
#define VALUE_LEAST 16u

/* Who: a place in the code and a thread. */
struct writer {
	uint64_t count, last_ns;
	const struct where *where; /* of one line: its first instruction that was seen */
	uint32_t pid, tid, watch;
	int is_read, is_last_uncertain;
	char last[WATCH_VALUE_BYTES];
};

struct writers {
	char **watches;
	size_t watch_count, watch_room;
	struct writer *all;
	size_t count, room;
	struct watch_hit *fresh; /* added and not yet settled */
	size_t fresh_count, fresh_room;
	struct watch_hit *history; /* a ring */
	size_t history_room, history_next;
	uint64_t kept; /* ever */
	uint64_t hits;
};

int writers_new(struct writers **out, size_t history)
{
	struct writers *table = *out = calloc(1, sizeof(*table));

	if (!table)
		return -ENOMEM;
	table->history_room = history;
	table->history = calloc(history ? history : 1, sizeof(*table->history));
	if (table->history)
		return 0;
	free(table);
	*out = NULL;
	return -ENOMEM;
}

void writers_free(struct writers *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->watch_count; i++)
		free(table->watches[i]);
	free(table->watches);
	free(table->all);
	free(table->fresh);
	free(table->history);
	free(table);
}

int writers_watch(struct writers *table, const char *words)
{
	for (size_t i = 0; i < table->watch_count; i++)
		if (!strcmp(table->watches[i], words))
			return (int)i;
	if (array_grow(&table->watches, &table->watch_room, table->watch_count + 1, sizeof(char *)))
		return -ENOMEM;
	table->watches[table->watch_count] = strdup(words);
	return table->watches[table->watch_count] ? (int)table->watch_count++ : -ENOMEM;
}

uint64_t writers_hits(const struct writers *table)
{
	return table->hits;
}

/* ---- hits ---- */

/* One line of source is one place, whichever of its instructions it was. */
static int is_same_place(const struct where *one, const struct where *other)
{
	return one == other || spot_is_same(&one->spot, &other->spot);
}

static struct writer *writer_of(struct writers *table, const struct watch_hit *hit)
{
	struct writer *writer;

	for (size_t i = 0; i < table->count; i++) {
		writer = &table->all[i];
		if (writer->tid == hit->tid && writer->pid == hit->pid &&
		    writer->watch == hit->watch && writer->is_read == hit->is_read &&
		    is_same_place(writer->where, hit->where))
			return writer;
	}
	if (array_grow(&table->all, &table->room, table->count + 1, sizeof(*table->all)))
		return NULL;
	writer = &table->all[table->count++];
	*writer = (struct writer){ .where = hit->where,
				   .pid = hit->pid,
				   .tid = hit->tid,
				   .watch = hit->watch,
				   .is_read = hit->is_read };
	return writer;
}

int writers_add(struct writers *table, const struct watch_hit *hit)
{
	struct writer *writer = writer_of(table, hit);

	if (!writer || array_grow(&table->fresh, &table->fresh_room, table->fresh_count + 1,
				  sizeof(*table->fresh)))
		return -ENOMEM;
	writer->count++;
	if (hit->time_ns >= writer->last_ns) {
		writer->last_ns = hit->time_ns;
		writer->is_last_uncertain = hit->is_after_uncertain;
		memcpy(writer->last, hit->after, sizeof(writer->last));
	}
	table->hits++;
	table->fresh[table->fresh_count] = *hit;
	table->fresh[table->fresh_count].order = (uint32_t)table->fresh_count;
	table->fresh_count++;
	return 0;
}

static int by_time(const void *one, const void *other)
{
	const struct watch_hit *a = one, *b = other;

	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

void writers_settle(struct writers *table,
		    void (*each)(const struct writers *table, const struct watch_hit *hit,
				 void *data),
		    void *data)
{
	if (!table->fresh_count)
		return;
	qsort(table->fresh, table->fresh_count, sizeof(*table->fresh), by_time);
	for (size_t i = 0; i < table->fresh_count; i++) {
		if (each)
			each(table, &table->fresh[i], data);
		if (!table->history_room)
			continue;
		table->history[table->history_next] = table->fresh[i];
		table->history_next = (table->history_next + 1) % table->history_room;
		table->kept++;
	}
	table->fresh_count = 0;
}

/* ---- what is shown ---- */

/* The prefix of a value that is not exact; "?" needs none. */
static const char *doubt(int is_uncertain, const char *value)
{
	return is_uncertain && strcmp(value, "?") ? "~" : "";
}

/* As "41 -> 42", or of a read "42, read". */
static void put_values(const struct watch_hit *hit, FILE *to)
{
	const char *after = doubt(hit->is_after_uncertain, hit->after);

	if (!hit->after[0])
		return;
	if (hit->is_read)
		fprintf(to, "  %s%s, read", after, hit->after);
	else
		fprintf(to, "  %s%s -> %s%s", doubt(hit->is_before_uncertain, hit->before),
			hit->before, after, hit->after);
}

static void put_frame(const char *text, void *data)
{
	fprintf(data, "        %s\n", text);
}

void writers_line(const struct writers *table, const struct watch_hit *hit, uint64_t began_ns,
		  FILE *to)
{
	uint64_t since_ns = hit->time_ns > began_ns ? hit->time_ns - began_ns : 0;
	char where[WHERE_BYTES];

	fprintf(to, "%4llu.%09llu  %7u  ", (unsigned long long)(since_ns / 1000000000u),
		(unsigned long long)(since_ns % 1000000000u), hit->tid);
	if (table->watch_count > 1 || hit->is_part)
		fprintf(to, "%s  ", table->watches[hit->watch]);
	fprintf(to, "%s%s", watch_where_text(hit->where, where, sizeof(where)),
		hit->is_late ? ", or before" : "");
	if (hit->is_kernel)
		fputs(", by the kernel", to);
	put_values(hit, to);
	fputc('\n', to);
	if (hit->backtrace.count > 1)
		watch_backtrace_lines(&hit->backtrace, put_frame, to);
}

static int by_count(const void *one, const void *other)
{
	const struct writer *a = *(const struct writer *const *)one,
			    *b = *(const struct writer *const *)other;

	if (a->watch != b->watch)
		return a->watch < b->watch ? -1 : 1;
	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

/* By watch, then by count; free() it. NULL: none, or no memory. */
static const struct writer **sorted(const struct writers *table)
{
	const struct writer **all = table->count ? malloc(table->count * sizeof(*all)) : NULL;

	for (size_t i = 0; all && i < table->count; i++)
		all[i] = &table->all[i];
	if (all)
		qsort(all, table->count, sizeof(*all), by_count);
	return all;
}

/* How wide the column of places is: as the widest of them, unless values would have no room then. */
static unsigned int where_width(const struct writers *table, unsigned int columns)
{
	unsigned int widest = WHERE_LEAST, most = WHERE_BYTES;
	char where[WHERE_BYTES];

	for (size_t i = 0; i < table->count; i++) {
		unsigned int width = (unsigned int)strlen(
			watch_where_text(table->all[i].where, where, sizeof(where)));

		widest = width > widest ? width : widest;
	}
	if (columns)
		most = columns > BESIDE_WHERE + VALUE_LEAST + WHERE_LEAST
			       ? columns - BESIDE_WHERE - VALUE_LEAST
			       : WHERE_LEAST;
	return widest < most ? widest : most;
}

/* Cut where it goes beyond `width`, and that is seen. */
static const char *cut(char *text, unsigned int width)
{
	if (strlen(text) > width)
		memcpy(text + width - 3, "...", 4);
	return text;
}

unsigned int writers_show(const struct writers *table, unsigned int rows, unsigned int columns,
			  FILE *to)
{
	const struct writer **all = sorted(table);
	unsigned int lines = 0, width = where_width(table, columns), beside = BESIDE_WHERE + width;
	int room = !columns ? INT_MAX : columns > beside ? (int)(columns - beside) : 0;
	char where[WHERE_BYTES], count[32], value[VALUE_BYTES];

	for (size_t i = 0; all && i < table->count && (!rows || lines < rows); i++) {
		const struct writer *writer = all[i];

		if (!i || writer->watch != all[i - 1]->watch) {
			fprintf(to, "%12s  %7s  %-*s  %.*s\n", "COUNT", "THREAD", (int)width,
				"WHERE", room, table->watches[writer->watch]);
			if (++lines == rows)
				break;
		}
		watch_where_text(writer->where, where, sizeof(where));
		snprintf(value, sizeof(value), "%s%s%s",
			 doubt(writer->is_last_uncertain, writer->last), writer->last,
			 writer->is_read ? ", read" : "");
		fprintf(to, "%12s  %7u  %-*s  %.*s\n",
			quantity_show_count(writer->count, count, sizeof(count)), writer->tid,
			(int)width, cut(where, width), room, value);
		lines++;
	}
	free(all);
	return lines;
}

static const struct watch_hit *kept_at(const struct writers *table, size_t index)
{
	size_t begin = table->kept < table->history_room ? 0 : table->history_next;

	return &table->history[(begin + index) % table->history_room];
}

static size_t kept_count(const struct writers *table)
{
	return table->kept < table->history_room ? (size_t)table->kept : table->history_room;
}

void writers_history(const struct writers *table, uint64_t began_ns, FILE *to)
{
	for (size_t i = 0; i < kept_count(table); i++)
		writers_line(table, kept_at(table, i), began_ns, to);
}

/* ---- JSON ---- */

static void json_writer(const struct writers *table, struct json *json, const struct writer *writer)
{
	json_open(json, NULL, '{');
	json_string(json, "watch", table->watches[writer->watch]);
	json_number(json, "pid", writer->pid);
	json_number(json, "tid", writer->tid);
	watch_where_json(writer->where, json);
	watch_frames_json(&(struct where_backtrace){ { writer->where }, 1 }, json);
	json_bool(json, "read", writer->is_read);
	json_number(json, "count", writer->count);
	json_words(json, "last", writer->last);
	json_bool(json, "last_exact", !writer->is_last_uncertain);
	json_close(json, '}');
}

static void json_hit(const struct writers *table, const struct watch_hit *hit, uint64_t began_ns,
		     struct json *json)
{
	json_open(json, NULL, '{');
	json_string(json, "watch", table->watches[hit->watch]);
	json_number(json, "since_ns", hit->time_ns > began_ns ? hit->time_ns - began_ns : 0);
	json_number(json, "pid", hit->pid);
	json_number(json, "tid", hit->tid);
	watch_where_json(hit->where, json);
	watch_frames_json(&hit->backtrace, json);
	json_bool(json, "read", hit->is_read);
	json_bool(json, "late", hit->is_late);
	json_bool(json, "kernel", hit->is_kernel);
	json_words(json, "before", hit->before);
	json_words(json, "after", hit->after);
	json_bool(json, "before_exact", !hit->is_before_uncertain);
	json_bool(json, "after_exact", !hit->is_after_uncertain);
	json_close(json, '}');
}

void writers_json(const struct writers *table, struct json *json)
{
	const struct writer **all = sorted(table);

	json_open(json, "writers", '[');
	for (size_t i = 0; all && i < table->count; i++)
		json_writer(table, json, all[i]);
	json_close(json, ']');
	free(all);
}

void writers_history_json(const struct writers *table, uint64_t began_ns, struct json *json)
{
	json_open(json, "history", '[');
	for (size_t i = 0; i < kept_count(table); i++)
		json_hit(table, kept_at(table, i), began_ns, json);
	json_close(json, ']');
}
