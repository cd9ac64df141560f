/* SPDX-License-Identifier: MIT */
#include "cli/watch_writers.h"

#include "base/array.h"
#include "base/quantity.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define WHERE_BYTES WATCH_WHERE_BYTES
#define VALUE_BYTES (WATCH_VALUE_BYTES + 8)
#define THREAD_COLUMNS 7
#define THREADS_COLUMNS 12 /* "6000 threads" */
#define BESIDE_WHERE 18u   /* columns: of the count, and what is between; not of the thread */
#define WHERE_LEAST 10u
#define VALUE_LEAST 16u

/* Who: a place in the code and a thread. */
struct writer {
	uint64_t count, first_ns, last_ns;
	const struct where *where; /* of one line: its first instruction that was seen */
	uint32_t pid, tid, watch;
	int is_read, is_first_uncertain, is_last_uncertain;
	char first[WATCH_VALUE_BYTES], last[WATCH_VALUE_BYTES];
};

/* What the table shows in one line: a writer, or all threads of one place. */
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

	/* Backwards: of many threads, those that live came last. */
	for (size_t i = table->count; i--;) {
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

/*
 * How wide the column of places is: as the widest of them, unless values would have no room then.
 */
static unsigned int where_width(const struct row *rows, size_t count, unsigned int beside,
				unsigned int columns)
{
	unsigned int widest = WHERE_LEAST, most = WHERE_BYTES;
	char where[WHERE_BYTES];

	for (size_t i = 0; i < count; i++) {
		unsigned int width = (unsigned int)strlen(
			watch_where_text(rows[i].one->where, where, sizeof(where)));

		widest = width > widest ? width : widest;
	}
	if (columns)
		most = columns > beside + VALUE_LEAST + WHERE_LEAST ? columns - beside - VALUE_LEAST
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

/* Count what has no room. Returns how many lines that took. */
static unsigned int left_out(const struct row *rows, size_t count, FILE *to)
{
	char text[32], hits[32];
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += rows[i].count;
	if (count)
		fprintf(to, "%12s  in %s more rows\n", quantity_show_count(sum, hits, sizeof(hits)),
			quantity_show_count(count, text, sizeof(text)));
	return count > 0;
}

/* How the columns are laid out. */
struct layout {
	int threads, where, values; /* columns; of values the most */
};

static void put_row(const struct row *row, const struct layout *layout, FILE *to)
{
	char where[WHERE_BYTES], count[32], thread[48], values[2 * VALUE_BYTES];

	watch_where_text(row->one->where, where, sizeof(where));
	thread_text(row, thread, sizeof(thread));
	values_text(row, values, sizeof(values));
	fprintf(to, "%12s  %*s  %-*s  %.*s\n",
		quantity_show_count(row->count, count, sizeof(count)), layout->threads, thread,
		layout->where, cut(where, (unsigned int)layout->where), layout->values, values);
}

/* The rows of one watch, in `lines` at most. Returns how many lines it printed. */
static unsigned int show_watch(const struct writers *table, const struct row *rows, size_t count,
			       size_t shown, const struct layout *layout, FILE *to)
{
	fprintf(to, "%12s  %*s  %-*s  %.*s\n", "COUNT", layout->threads, "THREAD", layout->where,
		"WHERE", layout->values, table->watches[rows[0].one->watch]);
	for (size_t i = 0; i < count && i < shown; i++)
		put_row(&rows[i], layout, to);
	if (shown >= count)
		return (unsigned int)count + 1;
	return (unsigned int)shown + 1 + left_out(rows + shown, count - shown, to);
}

/* How many of a watch's rows have room: a line for the head, and one for what is left out. */
static size_t room_for(size_t count, size_t most, unsigned int lines)
{
	if (most && count > most)
		count = most;
	if (lines && count + 1 > lines)
		count = lines > 2 ? lines - 2 : 0;
	return count;
}

unsigned int writers_show(const struct writers *table, const struct writers_view *view, FILE *to)
{
	size_t all, count, shown;
	struct row *rows = sorted(table, view->by_thread, &all);
	struct layout layout = { .threads = THREAD_COLUMNS, .values = INT_MAX };
	unsigned int lines = 0, width;

	for (size_t i = 0; i < all; i++)
		if (rows[i].threads > 1)
			layout.threads = THREADS_COLUMNS;
	width = BESIDE_WHERE + (unsigned int)layout.threads;
	layout.where = (int)where_width(rows, all, width, view->columns);
	width += (unsigned int)layout.where;
	if (view->columns)
		layout.values = view->columns > width ? (int)(view->columns - width) : 0;
	for (size_t i = 0; i < all && (!view->lines || lines < view->lines); i += count) {
		for (count = 1; i + count < all; count++)
			if (rows[i + count].one->watch != rows[i].one->watch)
				break;
		shown = room_for(count, view->rows, view->lines ? view->lines - lines : 0);
		lines += show_watch(table, rows + i, count, shown, &layout, to);
	}
	free(rows);
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
	json_words(json, "first", writer->first);
	json_bool(json, "first_exact", !writer->is_first_uncertain);
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

static void json_row(const struct writers *table, struct json *json, const struct row *row)
{
	json_open(json, NULL, '{');
	json_string(json, "watch", table->watches[row->one->watch]);
	json_number(json, "threads", row->threads);
	watch_where_json(row->one->where, json);
	watch_frames_json(&(struct where_backtrace){ { row->one->where }, 1 }, json);
	json_bool(json, "read", row->one->is_read);
	json_number(json, "count", row->count);
	json_words(json, "first", row->first->first);
	json_bool(json, "first_exact", !row->first->is_first_uncertain);
	json_words(json, "last", row->last->last);
	json_bool(json, "last_exact", !row->last->is_last_uncertain);
	json_close(json, '}');
}

void writers_json(const struct writers *table, struct json *json)
{
	size_t count;
	struct row *rows = sorted(table, 0, &count);

	json_open(json, "lines", '[');
	for (size_t i = 0; i < count; i++)
		json_row(table, json, &rows[i]);
	json_close(json, ']');
	free(rows);
	rows = sorted(table, 1, &count);
	json_open(json, "writers", '[');
	for (size_t i = 0; i < count; i++)
		json_writer(table, json, rows[i].one);
	json_close(json, ']');
	free(rows);
}

void writers_history_json(const struct writers *table, uint64_t began_ns, struct json *json)
{
	json_open(json, "history", '[');
	for (size_t i = 0; i < kept_count(table); i++)
		json_hit(table, kept_at(table, i), began_ns, json);
	json_close(json, ']');
}
