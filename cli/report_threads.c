/* SPDX-License-Identifier: MIT */
#include "cli/report_threads.h"

#include "base/name_match.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_SHOWN 20

static int by_running(const void *left, const void *right)
{
	const struct thread_record *a = *(const struct thread_record *const *)left;
	const struct thread_record *b = *(const struct thread_record *const *)right;
	uint64_t one = a->ns[THREAD_TIME_RUNNING], other = b->ns[THREAD_TIME_RUNNING];

	if (one != other)
		return one > other ? -1 : 1;
	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
}

int report_threads(struct report_threads *threads, struct trace_reader *reader,
		   const struct summary *summary, struct watch_wheres *wheres)
{
	int err;

	*threads = (struct report_threads){ .reader = reader, .wheres = wheres };
	if (!switches_has(reader))
		return 0;
	err = thread_names_read(&threads->names, reader);
	if (!err)
		err = process_numbers_make(&threads->numbers, reader);
	return err ? err : switches_open(&threads->switches, reader, summary);
}

int report_threads_finish(struct report_threads *threads)
{
	const struct thread_states *states = &threads->switches.states;
	int err = switches_finish(&threads->switches);

	threads->all = err ? NULL : calloc(states->count + 1, sizeof(*threads->all));
	if (!threads->all)
		return err ? err : -ENOMEM;
	for (size_t i = 0; i < states->count; i++)
		if (states->threads[i].is_recorded)
			threads->all[threads->count++] = &states->threads[i];
	if (threads->count)
		qsort(threads->all, threads->count, sizeof(*threads->all), by_running);
	return 0;
}

void report_threads_release(struct report_threads *threads)
{
	free(threads->all);
	process_numbers_release(&threads->numbers);
	thread_names_release(&threads->names);
	switches_release(&threads->switches);
}

const struct switch_span *report_threads_span(const struct report_threads *threads, uint32_t span)
{
	return threads->count ? &threads->switches.spans[span] : NULL;
}

/* The last name of a thread, or its program's; NULL: not known. Valid as long as `threads`. */
static const char *name_of(const struct report_threads *threads, uint32_t pid, uint32_t tid,
			   uint64_t ns)
{
	const char *name = thread_names_find(&threads->names, pid, tid, ns);
	uint32_t number = name ? PROCESS_NUMBER_NONE
			       : process_number_at(&threads->numbers, pid, ns, NULL);

	if (number == PROCESS_NUMBER_NONE)
		return name;
	name = threads->reader->meta.processes[number].exe;
	return name ? name_last_part(name) : NULL;
}

/* The same for a terminal's column; "?": not known. In text[], which is returned. */
static const char *name_text(const struct report_threads *threads,
			     const struct thread_record *thread, char text[64])
{
	const char *name = name_of(threads, thread->pid, thread->tid, thread->end_ns);

	snprintf(text, 64, "%s", name ? name : "?");
	return text;
}

/* Those with a switch or a time: they are in front of the others. */
static size_t shown_count(const struct report_threads *threads)
{
	size_t count = threads->count;

	while (count && !threads->all[count - 1]->switches &&
	       !threads->all[count - 1]->ns[THREAD_TIME_RUNNING])
		count--;
	return count;
}

static const struct row_column thread_columns[] = {
	{ "name", ROW_TEXT, ROW_PLAIN, 0, "the thread's, or its program's; null: not known" },
	{ "pid", ROW_U64, ROW_PLAIN, ROW_DETAIL, "its process" },
	{ "tid", ROW_U64, ROW_PLAIN, 0, "its number" },
	{ "begin", ROW_U64, ROW_TIME, ROW_DETAIL, "between this time" },
	{ "end", ROW_U64, ROW_TIME, ROW_DETAIL,
	  "and this one its states are known: the next five add up to that" },
	REPORT_TIME_COLUMNS,
	{ "switches", ROW_U64, ROW_COUNT, 0, "how often it left a CPU" },
	{ "preempted", ROW_U64, ROW_COUNT, 0, "of these: it could have continued" },
	{ "migrations", ROW_U64, ROW_COUNT, ROW_DETAIL,
	  "arrivals on another CPU than the one before" },
	{ "wakes", ROW_U64, ROW_COUNT, ROW_DETAIL, "how often it was woken" },
	{ "missing", ROW_U64, ROW_COUNT, ROW_QUIET,
	  "switches that are not in the trace, and must have been" },
	{ "lost_events", ROW_U64, ROW_COUNT, ROW_QUIET,
	  "of CPUs, while it lived: its times may be wrong" },
	{ "lost", ROW_U64, ROW_NS, ROW_QUIET, "by up to this time" },
	{ "most_woken_by", ROW_TEXT, ROW_PLAIN, ROW_FOR_TEXT,
	  "the thread that woke it most often, and how often; \"idle CPU\" is an interrupt there" },
};
static ROW_TABLE(report_thread_table, "thread", "What threads did with their time.",
		 thread_columns);

/* The waker that is most frequent. In text[], which is returned; NULL: none. */
static const char *waker_text(const struct report_threads *threads,
			      const struct thread_record *thread, char text[64])
{
	const struct frequent_entry *waker = thread->wakers.all;
	uint32_t tid = waker ? (uint32_t)waker->value : 0;
	const char *name = waker ? name_of(threads, waker->of, tid, thread->end_ns) : NULL;
	unsigned long long count = waker ? frequent_least(waker) : 0;

	if (!waker)
		return NULL;
	if (tid && tid <= INT32_MAX)
		snprintf(text, 64, "%s-%u (%llu)", name ? name : "?", tid, count);
	else
		snprintf(text, 64, "%s (%llu)", tid ? "?" : "idle CPU", count);
	return text;
}

static void thread_row(struct rows *rows, const struct report_threads *threads,
		       const struct thread_record *thread)
{
	char waker[64];

	ROWS_PUT(rows, thread_columns,
		 row_words(name_of(threads, thread->pid, thread->tid, thread->end_ns)),
		 row_u64(thread->pid), row_u64(thread->tid), row_u64(thread->begin_ns),
		 row_u64(thread->end_ns), REPORT_TIME_VALUES(1, thread->ns),
		 row_u64(thread->switches), row_u64(thread->preempted), row_u64(thread->migrations),
		 row_u64(thread->wakes), row_u64(thread->missing), row_u64(thread->lost_events),
		 row_u64(thread->lost_ns), row_text(waker_text(threads, thread, waker)));
}

/* ---- waits ---- */

static const struct row_column wait_columns[] = {
	{ "thread", ROW_TEXT, ROW_PLAIN, 0, "its name" },
	{ "pid", ROW_U64, ROW_PLAIN, ROW_DETAIL, "its process" },
	{ "tid", ROW_U64, ROW_PLAIN, 0, "its number" },
	{ "state", ROW_TEXT, ROW_PLAIN, 0,
	  "as in ps(1): S sleeps, D waits for a disk, T is stopped, t is traced, I idles, X and Z "
	  "end, R was preempted; ? is unknown" },
	{ "count", ROW_U64, ROW_COUNT, 0, "how often" },
	{ "time", ROW_U64, ROW_NS, 0, "until it was woken, or ran if the wake is not known" },
	{ "place", ROW_TEXT, ROW_PLAIN, 0, "where most of that time went" },
	{ "place_time", ROW_U64, ROW_NS, 0, "how much of it" },
};
static ROW_TABLE(report_wait_table, "wait", "For how long threads were off their CPUs, and where.",
		 wait_columns);

/* For how long it was off its CPU in that state, and the place where most of that time went. */
static void wait_row(struct rows *rows, const struct report_threads *threads,
		     const struct thread_record *thread, size_t number)
{
	int is_preempted = number == THREAD_LETTER_COUNT;
	const char letter[] = { is_preempted ? 'R' : THREAD_LETTERS[number], '\0' };
	const struct frequent_entry *place = thread->off[number].all;
	uint64_t ns = is_preempted ? thread->off[number].total : thread->waits[number].ns;
	uint64_t count = is_preempted ? thread->preempted : thread->waits[number].count;
	const struct where *where = place ? watch_where_at(threads->wheres, place->of,
							   place->first_ns, place->value)
					  : NULL;
	char text[WATCH_WHERE_BYTES], name[64];

	if (!ns && !count)
		return;
	ROWS_PUT(rows, wait_columns, row_text(name_text(threads, thread, name)),
		 row_u64(thread->pid), row_u64(thread->tid), row_text(letter), row_u64(count),
		 row_u64(ns), row_text(where ? watch_where_text(where, text, sizeof(text)) : NULL),
		 where ? row_u64(place->count < ns ? place->count : ns) : row_null());
}

/* ---- wakers and places ---- */

static const struct row_column waker_columns[] = {
	{ "pid", ROW_U64, ROW_PLAIN, ROW_DETAIL, "the thread's process" },
	{ "tid", ROW_U64, ROW_PLAIN, ROW_DETAIL, "the thread that was woken" },
	{ "waker_pid", ROW_U64, ROW_PLAIN, ROW_DETAIL, "the waker's process" },
	{ "waker_tid", ROW_U64, ROW_PLAIN, ROW_DETAIL,
	  "the waker; 0 is an idle CPU, for an interrupt; null: unknown" },
	{ "waker", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "its name" },
	{ "count", ROW_U64, ROW_COUNT, ROW_DETAIL, "what is certain of it" },
};
static ROW_TABLE(report_waker_table, "waker", "Who woke a thread: the 32 most frequent.",
		 waker_columns);

static void waker_rows(struct rows *rows, const struct report_threads *threads,
		       const struct thread_record *thread)
{
	for (size_t i = 0; i < thread->wakers.count; i++) {
		const struct frequent_entry *waker = &thread->wakers.all[i];
		uint32_t tid = (uint32_t)waker->value;
		int is_known = tid <= INT32_MAX;

		ROWS_PUT(rows, waker_columns, row_u64(thread->pid), row_u64(thread->tid),
			 is_known ? row_u64(waker->of) : row_null(),
			 is_known ? row_u64(tid) : row_null(),
			 row_words(name_of(threads, waker->of, tid, thread->end_ns)),
			 row_u64(frequent_least(waker)));
	}
}

static const struct row_column place_columns[] = {
	{ "pid", ROW_U64, ROW_PLAIN, ROW_DETAIL, "the thread's process" },
	{ "tid", ROW_U64, ROW_PLAIN, ROW_DETAIL, "the thread" },
	WATCH_WHERE_COLUMNS,
	{ "count", ROW_U64, ROW_COUNT, ROW_DETAIL, "how often it left its CPU there" },
	{ "preempted", ROW_U64, ROW_COUNT, ROW_DETAIL, "of these" },
	{ "off", ROW_U64, ROW_NS, ROW_DETAIL, "until it ran again" },
};
static ROW_TABLE(report_place_table, "place", "Where a thread left its CPU: the 32 most frequent.",
		 place_columns);

static void place_rows(struct rows *rows, const struct report_threads *threads,
		       const struct thread_record *thread)
{
	static const struct spot_frame nowhere;

	for (size_t i = 0; i < thread->places.count; i++) {
		const struct frequent_entry *place = &thread->places.all[i];
		const struct where *where = watch_where_at(threads->wheres, place->of,
							   place->first_ns, place->value);
		const struct spot_frame *frame = where ? &where->spot.frames[0] : &nowhere;

		ROWS_PUT(rows, place_columns, row_u64(thread->pid), row_u64(thread->tid),
			 WATCH_WHERE_VALUES(place->value, where ? where->spot.module : NULL,
					    where ? where->spot.offset : 0, frame),
			 row_u64(frequent_least(place)), row_u64(place->preempted),
			 row_u64(place->ns));
	}
}

void report_threads_print(const struct report_threads *threads, struct rows *rows)
{
	int is_text = rows->format == ROWS_TEXT;
	size_t count = is_text ? shown_count(threads) : threads->count;

	if (!threads->count)
		return;
	rows_open(rows, &report_thread_table,
		  &(struct rows_layout){ .shown = THREADS_SHOWN, .more = "--json lists all" });
	for (size_t i = 0; i < count; i++)
		thread_row(rows, threads, threads->all[i]);
	rows_close(rows);
	rows_open(rows, &report_wait_table, NULL);
	for (size_t i = 0; i < count && (!is_text || i < THREADS_SHOWN); i++)
		for (size_t j = 0; j <= THREAD_LETTER_COUNT; j++)
			wait_row(rows, threads, threads->all[i], j);
	rows_close(rows);
	rows_open(rows, &report_waker_table, NULL);
	for (size_t i = 0; i < threads->count && !is_text; i++)
		waker_rows(rows, threads, threads->all[i]);
	rows_close(rows);
	rows_open(rows, &report_place_table, NULL);
	for (size_t i = 0; i < threads->count && !is_text; i++)
		place_rows(rows, threads, threads->all[i]);
	rows_close(rows);
}
