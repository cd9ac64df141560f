/* SPDX-License-Identifier: MIT */
#include "cli/report_threads.h"

#include "base/name_match.h"
#include "base/out.h"
#include "cli/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_SHOWN_MAX 20

static const char *const time_keys[THREAD_TIMES] = {
	[THREAD_TIME_RUNNING] = "running_ns", [THREAD_TIME_RUNNABLE] = "runnable_ns",
	[THREAD_TIME_ASLEEP] = "asleep_ns",   [THREAD_TIME_WAITING] = "waiting_ns",
	[THREAD_TIME_UNKNOWN] = "unknown_ns",
};

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

static int threads_list(struct report_threads *threads)
{
	const struct thread_states *states = &threads->switches.states;

	threads->all = calloc(states->count + 1, sizeof(*threads->all));
	if (!threads->all)
		return -ENOMEM;
	for (size_t i = 0; i < states->count; i++)
		if (states->threads[i].is_recorded)
			threads->all[threads->count++] = &states->threads[i];
	if (threads->count)
		qsort(threads->all, threads->count, sizeof(*threads->all), by_running);
	return 0;
}

int report_threads(struct report_threads *threads, const struct trace_reader *reader,
		   const struct summary *summary, const char *dir)
{
	int err;

	*threads = (struct report_threads){ 0 };
	if (!switches_has(reader))
		return 0;
	err = trace_reader_open(&threads->reader, dir);
	if (!err)
		err = switches_read(&threads->switches, threads->reader, summary);
	if (!err)
		err = thread_names_read(&threads->names, threads->reader);
	if (!err)
		err = process_numbers_make(&threads->numbers, threads->reader);
	if (!err)
		err = watch_wheres_read(&threads->wheres, threads->reader);
	return err ? err : threads_list(threads);
}

void report_threads_release(struct report_threads *threads)
{
	free(threads->all);
	watch_wheres_free(threads->wheres);
	process_numbers_release(&threads->numbers);
	thread_names_release(&threads->names);
	switches_release(&threads->switches);
	if (threads->reader)
		trace_reader_close(threads->reader);
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

/* ---- text ---- */

/* With '<' before it: a part of it may be of another kind. */
static void print_time(uint64_t ns, int is_most)
{
	char time[24], text[32];

	snprintf(text, sizeof(text), "%s%s", is_most ? "<" : "", report_time((double)ns, time));
	printf(" %9s", text);
}

static void print_times(const uint64_t ns[THREAD_TIMES])
{
	print_time(ns[THREAD_TIME_RUNNING], 0);
	print_time(ns[THREAD_TIME_RUNNABLE], 0);
	print_time(ns[THREAD_TIME_ASLEEP] + ns[THREAD_TIME_WAITING], ns[THREAD_TIME_WAITING] > 0);
}

static void print_waker(const struct report_threads *threads, const struct thread_record *thread)
{
	const struct frequent_entry *waker = thread->wakers.all;
	uint32_t tid = waker ? (uint32_t)waker->value : 0;
	const char *name = waker ? name_of(threads, waker->of, tid, thread->end_ns) : NULL;
	char text[64];

	if (!waker)
		return;
	if (tid && tid <= INT32_MAX)
		printf("  %s-%u", name ? (out_tame(text, sizeof(text), name), text) : "?", tid);
	else
		printf("  %s", tid ? "?" : "idle CPU");
	printf(" (%llu)", (unsigned long long)frequent_least(waker));
}

/* For how long it was off its CPU in that state, and the place where most of that time went. */
static int print_off(const struct report_threads *threads, const struct frequent *off, char letter,
		     uint64_t ns, const char *between)
{
	const struct frequent_entry *place = off->all;
	const struct where *where = place ? watch_where_at(threads->wheres, place->of,
							   place->first_ns, place->value)
					  : NULL;
	char text[WATCH_WHERE_BYTES], time[24];

	if (!ns)
		return 0;
	printf("%s%c %s", between, letter, report_time((double)ns, time));
	if (where)
		printf(", most at %s (%s)", watch_where_text(where, text, sizeof(text)),
		       report_time((double)(place->count < ns ? place->count : ns), time));
	return 1;
}

/* What it waited for, and where; then where it was preempted. */
static void print_waits(const struct report_threads *threads, const struct thread_record *thread)
{
	const struct frequent *preempted = &thread->off[THREAD_LETTER_COUNT];
	int any = 0;

	for (size_t i = 0; i < THREAD_LETTER_COUNT; i++)
		any |= print_off(threads, &thread->off[i], THREAD_LETTERS[i], thread->waits[i].ns,
				 any ? "; " : "  ");
	any |= print_off(threads, preempted, 'R', preempted->total, any ? "; " : "  ");
	if (any)
		putchar('\n');
}

static void print_doubts(const struct thread_record *thread)
{
	uint64_t unknown_ns = thread->ns[THREAD_TIME_UNKNOWN];
	const char *between = "  ";
	char text[24];

	if (unknown_ns)
		printf("%s%s unknown", between, report_time((double)unknown_ns, text));
	between = unknown_ns ? "; " : between;
	if (thread->missing)
		printf("%s%llu switches missing", between, (unsigned long long)thread->missing);
	between = thread->missing ? "; " : between;
	if (thread->lost_events)
		printf("%suncertain: %llu events of CPUs lost meanwhile, in %s", between,
		       (unsigned long long)thread->lost_events,
		       report_time((double)thread->lost_ns, text));
	if (unknown_ns || thread->missing || thread->lost_events)
		putchar('\n');
}

static int has_waiting(const struct report_threads *threads)
{
	for (size_t i = 0; i < threads->count; i++)
		if (threads->all[i]->ns[THREAD_TIME_WAITING])
			return 1;
	return 0;
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

void report_threads_text(const struct report_threads *threads)
{
	size_t count = shown_count(threads);
	char name[17];

	if (!count)
		return;
	printf("\n%-16s %10s %9s %9s %9s %9s %9s  %s\n", "THREAD", "TID", "RUNNING", "RUNNABLE",
	       "ASLEEP", "SWITCHES", "PREEMPTED", "MOST WOKEN BY");
	for (size_t i = 0; i < count && i < THREADS_SHOWN_MAX; i++) {
		const struct thread_record *thread = threads->all[i];
		const char *known = name_of(threads, thread->pid, thread->tid, thread->end_ns);

		out_tame(name, sizeof(name), known ? known : "?");
		printf("%-16s %10u", name, thread->tid);
		print_times(thread->ns);
		printf(" %9llu %9llu", (unsigned long long)thread->switches,
		       (unsigned long long)thread->preempted);
		print_waker(threads, thread);
		putchar('\n');
		print_waits(threads, thread);
		print_doubts(thread);
	}
	if (count > THREADS_SHOWN_MAX)
		printf("and %zu more threads; --json lists all\n", count - THREADS_SHOWN_MAX);
	if (has_waiting(threads))
		printf("<: a part of it may be runnable: not all wakes are recorded\n");
}

void report_span_head(const struct report_threads *threads)
{
	if (threads->count)
		printf(" %9s %9s %9s", "RUNNING", "RUNNABLE", "ASLEEP");
}

void report_span_text(const struct switch_span *span)
{
	if (span)
		print_times(span->ns);
}

/* ---- JSON ---- */

void report_times_json(const uint64_t ns[THREAD_TIMES], struct json *json)
{
	for (int i = 0; i < THREAD_TIMES; i++)
		json_number(json, time_keys[i], ns[i]);
}

static void put_waits(const struct thread_record *thread, struct json *json)
{
	json_open(json, "waits", '[');
	for (size_t i = 0; i < THREAD_LETTER_COUNT; i++) {
		const char letter[] = { THREAD_LETTERS[i], '\0' };

		if (!thread->waits[i].count)
			continue;
		json_open(json, NULL, '{');
		json_string(json, "state", letter);
		json_number(json, "count", thread->waits[i].count);
		json_number(json, "ns", thread->waits[i].ns);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void put_wakers(const struct report_threads *threads, const struct thread_record *thread,
		       struct json *json)
{
	json_open(json, "wakers", '[');
	for (size_t i = 0; i < thread->wakers.count; i++) {
		const struct frequent_entry *waker = &thread->wakers.all[i];
		uint32_t tid = (uint32_t)waker->value;

		json_open(json, NULL, '{');
		if (tid <= INT32_MAX) {
			json_number(json, "pid", waker->of);
			json_number(json, "tid", tid);
		} else {
			json_null(json, "pid");
			json_null(json, "tid");
		}
		json_words(json, "name", name_of(threads, waker->of, tid, thread->end_ns));
		json_number(json, "count", frequent_least(waker));
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void put_places(const struct report_threads *threads, const struct thread_record *thread,
		       struct json *json)
{
	json_open(json, "places", '[');
	for (size_t i = 0; i < thread->places.count; i++) {
		const struct frequent_entry *place = &thread->places.all[i];
		const struct where *where = watch_where_at(threads->wheres, place->of,
							   place->first_ns, place->value);

		json_open(json, NULL, '{');
		if (where)
			watch_where_json(where, json);
		else
			json_number(json, "address", place->value);
		json_number(json, "count", frequent_least(place));
		json_number(json, "preempted", place->preempted);
		json_number(json, "off_ns", place->ns);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void put_thread(const struct report_threads *threads, const struct thread_record *thread,
		       struct json *json)
{
	json_open(json, NULL, '{');
	json_number(json, "pid", thread->pid);
	json_number(json, "tid", thread->tid);
	json_words(json, "name", name_of(threads, thread->pid, thread->tid, thread->end_ns));
	json_number(json, "begin_ns", thread->begin_ns);
	json_number(json, "end_ns", thread->end_ns);
	report_times_json(thread->ns, json);
	json_number(json, "switches", thread->switches);
	json_number(json, "preempted", thread->preempted);
	json_number(json, "migrations", thread->migrations);
	json_number(json, "wakes", thread->wakes);
	json_number(json, "missing", thread->missing);
	json_number(json, "lost_events", thread->lost_events);
	json_number(json, "lost_ns", thread->lost_ns);
	put_waits(thread, json);
	put_wakers(threads, thread, json);
	put_places(threads, thread, json);
	json_close(json, '}');
}

void report_threads_json(const struct report_threads *threads, struct json *json)
{
	if (!threads->count)
		return;
	json_open(json, "switched", '[');
	for (size_t i = 0; i < threads->count; i++)
		put_thread(threads, threads->all[i], json);
	json_close(json, ']');
}
