/* SPDX-License-Identifier: MIT */
#include "cli/watch_writers.h"

#include "base/array.h"
#include "base/quantity.h"
#include "base/slots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WHERE_BYTES WATCH_WHERE_BYTES
#define VALUE_BYTES (WATCH_VALUE_BYTES + 8)

/* Who: a place in the code and a thread. */
struct writer {
	uint64_t count, first_ns, last_ns;
	const struct where *where; /* of one line: its first instruction that was seen */
	uint32_t pid, tid, watch;
	int is_read, is_first_uncertain, is_last_uncertain;
	char first[WATCH_VALUE_BYTES], last[WATCH_VALUE_BYTES];
};

/* A row of the table: a writer, or all threads of one place. */
struct row {
	const struct writer *one;	   /* any of them */
	const struct writer *first, *last; /* whose values were the first and the last */
	uint64_t count, threads;
};

struct writers {
	char **watches;
	size_t watch_count, watch_room;
	struct writer *all;
	size_t count, room;
	struct slots slots;	 /* of all, by thread, watch and is_read */
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
	free(table->slots.all);
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
	uint32_t hash = slots_hash((uint64_t)hit->tid << 32 | hit->watch << 1 |
				   (hit->is_read != 0));
	struct writer *writer;
	uint32_t number;

	if (slots_fit(&table->slots))
		return NULL;
	for (uint64_t at = hash; slots_next(&table->slots, hash, &at, &number);) {
		writer = &table->all[number];
		if (writer->tid == hit->tid && writer->pid == hit->pid &&
		    writer->watch == hit->watch && writer->is_read == hit->is_read &&
		    is_same_place(writer->where, hit->where))
			return writer;
	}
	if (array_grow(&table->all, &table->room, table->count + 1, sizeof(*table->all)))
		return NULL;
	slots_add(&table->slots, hash, (uint32_t)table->count);
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
	if (!writer->count++ || hit->time_ns < writer->first_ns) {
		writer->first_ns = hit->time_ns;
		writer->is_first_uncertain = hit->is_after_uncertain;
		memcpy(writer->first, hit->after, sizeof(writer->first));
	}
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
	const struct row *a = one, *b = other;

	if (a->one->watch != b->one->watch)
		return a->one->watch < b->one->watch ? -1 : 1;
	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	return a->one->tid < b->one->tid ? -1 : a->one->tid > b->one->tid;
}

static int is_same_line(const struct writer *one, const struct writer *other)
{
	return one->watch == other->watch && one->is_read == other->is_read &&
	       is_same_place(one->where, other->where);
}

static void row_add(struct row *row, const struct writer *writer)
{
	if (!row->threads++)
		row->one = row->first = row->last = writer;
	row->count += writer->count;
	if (writer->first_ns < row->first->first_ns)
		row->first = writer;
	if (writer->last_ns >= row->last->last_ns)
		row->last = writer;
}

/* By watch, then by count; free() it. NULL: none, or no memory. */
static struct row *sorted(const struct writers *table, int by_thread, size_t *count)
{
	struct row *all = table->count ? calloc(table->count, sizeof(*all)) : NULL;

	*count = 0;
	for (size_t i = 0; all && i < table->count; i++) {
		size_t at = by_thread ? *count : 0;

		while (at < *count && !is_same_line(all[at].one, &table->all[i]))
			at++;
		row_add(&all[at], &table->all[i]);
		*count += at == *count;
	}
	if (all)
		qsort(all, *count, sizeof(*all), by_count);
	return all;
}

/* "1 .. 400": the first value that was written there, and the last. */
static void values_text(const struct row *row, char *text, size_t room)
{
	const struct writer *first = row->first, *last = row->last;
	const char *more = last->is_read ? ", read" : "", *before = "";
	int is_range = row->count > 1 && strcmp(first->first, last->last) != 0;

	if (is_range)
		before = doubt(first->is_first_uncertain, first->first);
	snprintf(text, room, "%s%s%s%s%s%s", before, is_range ? first->first : "",
		 is_range ? " .. " : "", doubt(last->is_last_uncertain, last->last), last->last,
		 more);
}

static void thread_text(const struct row *row, char *text, size_t room)
{
	char count[32];

	if (row->threads == 1)
		snprintf(text, room, "%u", row->one->tid);
	else
		snprintf(text, room, "%s threads",
			 quantity_show_count(row->threads, count, sizeof(count)));
}

static const struct row_column writer_columns[] = {
	{ "watch", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "its expression" },
	{ "count", ROW_U64, ROW_COUNT, 0, "hits there" },
	{ "threads", ROW_U64, ROW_COUNT, ROW_DETAIL, "that had them" },
	{ "pid", ROW_U64, ROW_PLAIN, ROW_DETAIL, "of the thread, or of one of them" },
	{ "tid", ROW_U64, ROW_PLAIN, ROW_DETAIL, "likewise" },
	{ "thread", ROW_TEXT, ROW_PLAIN, ROW_FOR_TEXT | ROW_RIGHT, "its tid, or how many" },
	{ "where", ROW_TEXT, ROW_PLAIN, 0, "the place, with functions in line" },
	WATCH_WHERE_COLUMNS,
	{ "read", ROW_BOOL, ROW_PLAIN, ROW_DETAIL, "the hits wrote nothing" },
	{ "first", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "value there" },
	{ "first_exact", ROW_BOOL, ROW_PLAIN, ROW_DETAIL, "it is certain" },
	{ "last", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "value there" },
	{ "last_exact", ROW_BOOL, ROW_PLAIN, ROW_DETAIL, "it is certain" },
	{ "values", ROW_TEXT, ROW_PLAIN, ROW_FOR_TEXT | ROW_QUOTED, "the two" },
};
static ROW_TABLE(writer_table, "writer", "The hits of a watch, by line of source and thread.",
		 writer_columns);
static ROW_TABLE(writer_line_table, "writer_line", "The hits of a watch, by line of source.",
		 writer_columns);

static void put_row(const struct writers *table, const struct row *row, struct rows *rows)
{
	char where[WHERE_BYTES], thread[48], values[2 * VALUE_BYTES];
	const struct writer *one = row->one;

	thread_text(row, thread, sizeof(thread));
	values_text(row, values, sizeof(values));
	ROWS_PUT(rows, writer_columns, row_text(table->watches[one->watch]), row_u64(row->count),
		 row_u64(row->threads), row_u64(one->pid), row_u64(one->tid), row_text(thread),
		 row_text(watch_where_text(one->where, where, sizeof(where))),
		 WATCH_WHERE_VALUES(one->where->address, one->where->spot.module,
				    one->where->spot.offset, &one->where->spot.frames[0]),
		 row_bool(one->is_read), row_words(row->first->first),
		 row_bool(!row->first->is_first_uncertain), row_words(row->last->last),
		 row_bool(!row->last->is_last_uncertain), row_words(values));
}

/* The rows of one watch, as text: it is their title. */
static void show_watch(const struct writers *table, const struct row *all, size_t count,
		       size_t shown, struct rows *rows)
{
	struct rows_layout layout = { .title = table->watches[all->one->watch], .shown = shown };
	char more[64], text[32];
	uint64_t hits = 0;

	for (size_t i = shown ? shown : count; i < count; i++)
		hits += all[i].count;
	snprintf(more, sizeof(more), "%s hits; --rows 0 shows all",
		 quantity_show_count(hits, text, sizeof(text)));
	layout.more = more;
	rows_open(rows, &writer_table, &layout);
	for (size_t i = 0; i < count; i++)
		put_row(table, &all[i], rows);
	rows_close(rows);
}

static void put_all(const struct writers *table, int by_thread, struct rows *rows)
{
	size_t count;
	struct row *all = sorted(table, by_thread, &count);

	rows_open(rows, by_thread ? &writer_table : &writer_line_table, NULL);
	for (size_t i = 0; i < count; i++)
		put_row(table, &all[i], rows);
	rows_close(rows);
	free(all);
}

void writers_rows(const struct writers *table, int by_thread, size_t shown, struct rows *rows)
{
	size_t all, count;
	struct row *list;

	if (rows->format != ROWS_TEXT) {
		put_all(table, 0, rows);
		put_all(table, 1, rows);
		return;
	}
	list = sorted(table, by_thread, &all);
	for (size_t i = 0; i < all; i += count) {
		for (count = 1; i + count < all; count++)
			if (list[i + count].one->watch != list[i].one->watch)
				break;
		show_watch(table, &list[i], count, shown, rows);
	}
	free(list);
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

static const struct row_column hit_columns[] = {
	{ "hit", ROW_U64, ROW_PLAIN, ROW_DETAIL, "its number among these" },
	{ "watch", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "its expression" },
	{ "since", ROW_U64, ROW_SINCE, ROW_DETAIL, "when" },
	{ "pid", ROW_U64, ROW_PLAIN, ROW_DETAIL, "of the thread" },
	{ "tid", ROW_U64, ROW_PLAIN, ROW_DETAIL, "of the thread" },
	WATCH_WHERE_COLUMNS,
	{ "read", ROW_BOOL, ROW_PLAIN, ROW_DETAIL, "nothing was written" },
	{ "late", ROW_BOOL, ROW_PLAIN, ROW_DETAIL, "it was at that place or before" },
	{ "kernel", ROW_BOOL, ROW_PLAIN, ROW_DETAIL, "it wrote, in a system call there" },
	{ "before", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "the value" },
	{ "before_exact", ROW_BOOL, ROW_PLAIN, ROW_DETAIL, "it is certain" },
	{ "after", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "the value" },
	{ "after_exact", ROW_BOOL, ROW_PLAIN, ROW_DETAIL, "it is certain" },
};
static ROW_TABLE(hit_table, "hit", "The last hits of watches.", hit_columns);

static void put_hit(const struct writers *table, const struct watch_hit *hit, uint64_t number,
		    uint64_t began_ns, struct rows *rows)
{
	ROWS_PUT(rows, hit_columns, row_u64(number), row_text(table->watches[hit->watch]),
		 row_u64(hit->time_ns > began_ns ? hit->time_ns - began_ns : 0), row_u64(hit->pid),
		 row_u64(hit->tid),
		 WATCH_WHERE_VALUES(hit->where->address, hit->where->spot.module,
				    hit->where->spot.offset, &hit->where->spot.frames[0]),
		 row_bool(hit->is_read), row_bool(hit->is_late), row_bool(hit->is_kernel),
		 row_words(hit->before), row_bool(!hit->is_before_uncertain), row_words(hit->after),
		 row_bool(!hit->is_after_uncertain));
}

void writers_history_rows(const struct writers *table, uint64_t began_ns, struct rows *rows)
{
	rows_open(rows, &hit_table, NULL);
	for (size_t i = 0; i < kept_count(table); i++)
		put_hit(table, kept_at(table, i), i, began_ns, rows);
	rows_close(rows);
	rows_open(rows, &frame_table, NULL);
	for (size_t i = 0; i < kept_count(table); i++)
		watch_frames_put(&kept_at(table, i)->backtrace, row_u64(i), rows);
	rows_close(rows);
}
