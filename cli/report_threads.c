/* SPDX-License-Identifier: MIT */
/* The time of threads by state, by the switches of a trace, and their waits by stack and waker. */
#include "cli/report.h"

#include "base/name_match.h"
#include "read/history/functions.h"

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

static int off_take(const struct thread_off *off, void *data)
{
	struct report_threads *threads = data;
	const struct thread_record *thread = &threads->switches.states.threads[off->thread];

	if ((threads->pid && thread->pid != threads->pid) ||
	    (threads->tid && thread->tid != threads->tid))
		return 0;
	return waits_add(&threads->waits, off);
}

static int stack_take(const struct merge_event *event, uint64_t place, uint32_t *stack, void *data)
{
	return samples_stack(data, event, place, stack);
}

/* Whether departures have callers. */
static int has_callers(const struct trace_reader *reader)
{
	for (uint32_t i = 0; i < reader->meta.process_count; i++) {
		const struct trace_schema *schema = reader->meta.processes[i].schema;

		for (uint32_t j = 0; schema && j < schema->count; j++)
			if (!strcmp(schema->classes[j]->name, "switch:depart") &&
			    schema->classes[j]->types[schema->classes[j]->count - 1] ==
				    WM_TYPE_ADDRESSES)
				return 1;
	}
	return 0;
}

int report_threads(struct report_threads *threads, struct images *images,
		   const struct summary *summary, struct watch_wheres *wheres)
{
	static const struct samples_options all;
	struct switches *switches = &threads->switches;
	int err;

	threads->reader = images->reader;
	threads->wheres = wheres;
	if (!switches_has(images->reader))
		return 0;
	err = thread_names_read(&threads->names, images->reader);
	if (!err)
		err = process_numbers_make(&threads->numbers, images->reader);
	if (!err)
		err = switches_open(switches, images->reader, summary);
	switches->states.take_off = off_take;
	switches->states.take_data = threads;
	if (err || !has_callers(images->reader))
		return err;
	switches->stack_of = stack_take;
	switches->stack_data = &threads->stacks;
	return samples_open(&threads->stacks, images, &all);
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

/* ---- sums of waits ---- */

/* Sums that are one row. */
struct wait_row {
	const struct wait_sum *sum; /* one of its sums, by the waker that ended most of its time */
	uint64_t count, off_ns, max_ns, woken, asleep_ns;
	uint64_t waker_ns; /* that time */
};

/* By thread, state and place. */
static int by_place(const void *left, const void *right)
{
	const struct wait_sum *a = left, *b = right;

	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	if (a->as != b->as)
		return a->as < b->as ? -1 : 1;
	if (a->image != b->image)
		return a->image < b->image ? -1 : 1;
	return (a->place > b->place) - (a->place < b->place);
}

static int waker_order(const struct wait_sum *a, const struct wait_sum *b)
{
	if (a->waker_pid != b->waker_pid)
		return a->waker_pid < b->waker_pid ? -1 : 1;
	return (a->waker_tid > b->waker_tid) - (a->waker_tid < b->waker_tid);
}

/* By the thread, and who woke it. */
static int by_waker(const void *left, const void *right, void *data)
{
	const struct wait_sum *a = *(const struct wait_sum *const *)left;
	const struct wait_sum *b = *(const struct wait_sum *const *)right;

	(void)data;
	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	return waker_order(a, b);
}

/* By the name of the thread, its state, and its stack, or its place where there are no stacks. */
static int by_stack(const void *left, const void *right, void *data)
{
	const struct wait_sum *a = *(const struct wait_sum *const *)left;
	const struct wait_sum *b = *(const struct wait_sum *const *)right;
	const struct report_threads *threads = data;
	int order = strcmp(threads->thread_names[a->thread], threads->thread_names[b->thread]);

	if (order)
		return order;
	if (a->as != b->as)
		return a->as < b->as ? -1 : 1;
	if (a->stack != b->stack)
		return a->stack < b->stack ? -1 : 1;
	if (a->stack)
		return 0;
	if (a->image != b->image)
		return a->image < b->image ? -1 : 1;
	return (a->place > b->place) - (a->place < b->place);
}

/* The same, and those of a waker together. */
static int by_stack_and_waker(const void *left, const void *right, void *data)
{
	int order = by_stack(left, right, data);

	return order ? order
		     : waker_order(*(const struct wait_sum *const *)left,
				   *(const struct wait_sum *const *)right);
}

static void row_add(struct wait_row *row, const struct wait_sum *sum)
{
	row->count += sum->count;
	row->off_ns += sum->off_ns;
	row->max_ns = sum->max_ns > row->max_ns ? sum->max_ns : row->max_ns;
	row->woken += sum->woken;
	row->asleep_ns += sum->asleep_ns;
}

/*
 * A row for those that are the same to `order`, which is the first part of `sort`. The caller frees
 * them. NULL: no memory.
 */
static struct wait_row *rows_unite(const struct report_threads *threads,
				   int (*sort)(const void *left, const void *right, void *data),
				   int (*order)(const void *left, const void *right, void *data),
				   int wants_runnable, size_t *count)
{
	const struct waits *waits = &threads->waits;
	const struct wait_sum **sums = calloc(waits->count + 1, sizeof(*sums));
	struct wait_row *rows = calloc(waits->count + 1, sizeof(*rows)), *row = NULL;
	uint64_t waker_ns = 0;
	size_t all = 0;

	*count = 0;
	for (size_t i = 0; sums && rows && i < waits->count; i++)
		if (wants_runnable || waits->all[i].as != THREAD_LETTER_COUNT)
			sums[all++] = &waits->all[i];
	if (all)
		qsort_r(sums, all, sizeof(*sums), sort, (void *)(uintptr_t)threads);
	for (size_t i = 0; i < all; i++) {
		int is_new = !i || order(&sums[i - 1], &sums[i], (void *)(uintptr_t)threads) != 0;

		if (is_new)
			row = &rows[(*count)++];
		waker_ns = is_new || waker_order(sums[i - 1], sums[i]) ? 0 : waker_ns;
		waker_ns += sums[i]->off_ns;
		row_add(row, sums[i]);
		if (!row->sum || waker_ns > row->waker_ns) {
			row->waker_ns = waker_ns;
			row->sum = sums[i];
		}
	}
	free(sums);
	return rows;
}

int report_threads_finish(struct report_threads *threads)
{
	const struct thread_states *states = &threads->switches.states;
	struct waits *waits = &threads->waits;
	int err = switches_finish(&threads->switches);

	if (err)
		return err;
	threads->all = calloc(states->count + 1, sizeof(*threads->all));
	threads->thread_names = calloc(states->count + 1, sizeof(*threads->thread_names));
	threads->first_waits = calloc(states->count + 2, sizeof(*threads->first_waits));
	if (!threads->all || !threads->thread_names || !threads->first_waits)
		return -ENOMEM;
	for (size_t i = 0; i < states->count; i++) {
		const struct thread_record *thread = &states->threads[i];
		const char *name = name_of(threads, thread->pid, thread->tid, thread->end_ns);

		threads->thread_names[i] = name ? name : "?";
		if (thread->is_recorded)
			threads->all[threads->count++] = thread;
	}
	if (threads->count)
		qsort(threads->all, threads->count, sizeof(*threads->all), by_running);
	if (waits->count)
		qsort(waits->all, waits->count, sizeof(*waits->all), by_place);
	for (size_t i = 0; i < waits->count; i++)
		threads->first_waits[waits->all[i].thread + 1]++;
	for (size_t i = 0; i < states->count; i++)
		threads->first_waits[i + 1] += threads->first_waits[i];
	threads->wakers = rows_unite(threads, by_waker, by_waker, 0, &threads->waker_count);
	return threads->wakers ? 0 : -ENOMEM;
}

void report_threads_release(struct report_threads *threads)
{
	free(threads->all);
	free(threads->thread_names);
	free(threads->first_waits);
	free(threads->wakers);
	waits_release(&threads->waits);
	if (threads->stacks.reader)
		samples_close(&threads->stacks);
	process_numbers_release(&threads->numbers);
	thread_names_release(&threads->names);
	switches_release(&threads->switches);
}

/* ---- words ---- */

static char letter_of(uint8_t as)
{
	return as == THREAD_LETTER_COUNT ? 'R' : THREAD_LETTERS[as];
}

/* "poster-12", "idle CPU"; NULL: not known. In text[]. */
static const char *waker_text(const struct report_threads *threads, const struct wait_sum *sum,
			      char text[64])
{
	const struct thread_record *thread = &threads->switches.states.threads[sum->thread];
	uint32_t tid = sum->waker_tid;
	const char *name;

	if (tid == THREAD_NO_WAKER)
		return NULL;
	if (!tid)
		return "idle CPU";
	if (tid > INT32_MAX)
		return "?";
	name = name_of(threads, sum->waker_pid, tid, thread->end_ns);
	snprintf(text, 64, "%s-%u", name ? name : "?", tid);
	return text;
}

const char *report_stack_text(const struct stacks *stacks, uint32_t stack, int is_kernel,
			      char text[REPORT_STACK_BYTES])
{
	size_t used = 0;

	for (const struct stacks_one *one = &stacks->all[stack]; one->function;
	     one = &stacks->all[one->outer]) {
		char name[FUNCTION_TEXT_BYTES];

		if (function_is_kernel(one->function) != is_kernel ||
		    used >= REPORT_STACK_BYTES - 1)
			continue;
		used += (size_t)snprintf(text + used, REPORT_STACK_BYTES - used, "%s%s",
					 used ? " < " : "",
					 function_text(one->function, name, sizeof(name)));
	}
	return used ? text : NULL;
}

/* Where a thread left its CPU: its stack, or the place where no stacks were recorded. */
static const char *off_text(const struct report_threads *threads, uint32_t image, uint32_t stack,
			    uint64_t place, uint64_t ns, char text[REPORT_STACK_BYTES])
{
	const struct where *where;

	if (stack) {
		const char *user = report_stack_text(&threads->stacks.stacks, stack, 0, text);

		return user ? user : report_stack_text(&threads->stacks.stacks, stack, 1, text);
	}
	where = place ? watch_where_at(threads->wheres, image, ns, place) : NULL;
	return where ? watch_where_text(where, text, WATCH_WHERE_BYTES) : NULL;
}

/* ---- threads ---- */

static const struct row_column thread_columns[] = {
	{ "name", ROW_TEXT, ROW_PLAIN, 0, "the thread's, or its program's; null: not known" },
	{ "pid", ROW_U64, ROW_PLAIN, ROW_DETAIL, "its process" },
	{ "tid", ROW_U64, ROW_PLAIN, 0, "its number" },
	{ "begin", ROW_U64, ROW_TIME, ROW_DETAIL, "between this time" },
	{ "end", ROW_U64, ROW_TIME, ROW_DETAIL,
	  "and this one its states are known: the next five add up to that" },
	TIME_COLUMNS,
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
	  "the thread that ended most of its waits, and how many; \"idle CPU\" is an interrupt "
	  "there" },
};
static ROW_TABLE(report_thread_table, "thread", "What threads did with their time.",
		 thread_columns);

static size_t thread_number(const struct report_threads *threads,
			    const struct thread_record *thread)
{
	return (size_t)(thread - threads->switches.states.threads);
}

/* The waker of most of its waits. In text[]; NULL: none is known. */
static const char *most_woken_text(const struct report_threads *threads, size_t number,
				   char text[96])
{
	const struct wait_row *most = NULL;
	size_t low = 0, high = threads->waker_count;
	char name[64];

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (threads->wakers[middle].sum->thread < number)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < threads->waker_count && threads->wakers[low].sum->thread == number; low++) {
		const struct wait_row *row = &threads->wakers[low];

		if (row->sum->waker_tid != THREAD_NO_WAKER && (!most || row->count > most->count))
			most = row;
	}
	if (!most)
		return NULL;
	snprintf(text, 96, "%s (%llu)", waker_text(threads, most->sum, name),
		 (unsigned long long)most->count);
	return text;
}

static void thread_row(struct rows *rows, const struct report_threads *threads,
		       const struct thread_record *thread)
{
	size_t number = thread_number(threads, thread);
	const char *name = threads->thread_names[number];
	char waker[96];

	ROWS_PUT(rows, thread_columns, row_words(strcmp(name, "?") != 0 ? name : NULL),
		 row_u64(thread->pid), row_u64(thread->tid), row_u64(thread->begin_ns),
		 row_u64(thread->end_ns), TIME_VALUES(1, thread->ns), row_u64(thread->switches),
		 row_u64(thread->preempted), row_u64(thread->migrations), row_u64(thread->wakes),
		 row_u64(thread->missing), row_u64(thread->lost_events), row_u64(thread->lost_ns),
		 row_text(most_woken_text(threads, number, waker)));
}

/* ---- waits by thread and state ---- */

#define STATE_MEANING                                                                              \
	"as in ps(1): S sleeps, D waits for a disk, T is stopped, t is traced, I idles, X and Z "  \
	"end, R was preempted; ? is unknown"

static const struct row_column wait_columns[] = {
	{ "thread", ROW_TEXT, ROW_PLAIN, 0, "its name" },
	{ "pid", ROW_U64, ROW_PLAIN, ROW_DETAIL, "its process" },
	{ "tid", ROW_U64, ROW_PLAIN, 0, "its number" },
	{ "state", ROW_TEXT, ROW_PLAIN, 0, STATE_MEANING },
	{ "count", ROW_U64, ROW_COUNT, 0, "how often" },
	{ "time", ROW_U64, ROW_NS, 0, "until it was woken, or ran if the wake is not known" },
	{ "place", ROW_TEXT, ROW_PLAIN, 0, "where it was off its CPU for most of the time" },
	{ "place_time", ROW_U64, ROW_NS, 0, "for how long there, until it ran again" },
};
static ROW_TABLE(report_wait_table, "wait", "For how long threads were off their CPUs, and where.",
		 wait_columns);

/*
 * The place where it was off its CPU longest in that state, and *off_ns: for how long; *all_ns: in
 * all. NULL: none is known.
 */
static const struct wait_sum *longest_place(const struct report_threads *threads, size_t number,
					    uint8_t as, uint64_t *off_ns, uint64_t *all_ns)
{
	const struct wait_sum *most = NULL, *last = NULL;
	uint64_t ns = 0;

	*off_ns = *all_ns = 0;
	for (size_t i = threads->first_waits[number]; i < threads->first_waits[number + 1]; i++) {
		const struct wait_sum *sum = &threads->waits.all[i];

		if (sum->as != as)
			continue;
		*all_ns += sum->off_ns;
		ns = last && last->place == sum->place && last->image == sum->image ? ns : 0;
		ns += sum->off_ns;
		last = sum;
		if (!sum->place || ns <= *off_ns)
			continue;
		*off_ns = ns;
		most = sum;
	}
	return most;
}

static void wait_row(struct rows *rows, const struct report_threads *threads,
		     const struct thread_record *thread, uint8_t as)
{
	size_t number = thread_number(threads, thread);
	int is_preempted = as == THREAD_LETTER_COUNT;
	const char letter[] = { letter_of(as), '\0' };
	uint64_t place_ns, off_ns;
	const struct wait_sum *place = longest_place(threads, number, as, &place_ns, &off_ns);
	uint64_t ns = is_preempted ? off_ns : thread->waits[as].ns;
	uint64_t count = is_preempted ? thread->preempted : thread->waits[as].count;
	const struct where *where = place ? watch_where_at(threads->wheres, place->image,
							   place->first_ns, place->place)
					  : NULL;
	char text[WATCH_WHERE_BYTES];

	if (!ns && !count)
		return;
	ROWS_PUT(rows, wait_columns, row_text(threads->thread_names[number]), row_u64(thread->pid),
		 row_u64(thread->tid), row_text(letter), row_u64(count), row_u64(ns),
		 row_text(where ? watch_where_text(where, text, sizeof(text)) : NULL),
		 where ? row_u64(place_ns) : row_null());
}

/* ---- waits by stack, and by waker ---- */

struct waits_printing {
	const struct report_threads *threads;
	const struct wait_row *rows;
	char stack[REPORT_STACK_BYTES], kernel[REPORT_STACK_BYTES], waker[64], letter[2];
};

static const struct row_column wait_stack_columns[] = {
	{ "thread", ROW_TEXT, ROW_PLAIN, 0, "the name of the threads" },
	{ "state", ROW_TEXT, ROW_PLAIN, 0, STATE_MEANING },
	{ "count", ROW_U64, ROW_COUNT, 0, "how often they left a CPU so" },
	{ "time", ROW_U64, ROW_NS, 0, "off a CPU, until they ran again" },
	{ "asleep", ROW_U64, ROW_NS, 0, "of that, until they were woken; null: not known" },
	{ "max", ROW_U64, ROW_NS, 0, "the longest time off a CPU" },
	{ "woken_by", ROW_TEXT, ROW_PLAIN, 0,
	  "the thread that ended most of that time; \"idle CPU\" is an interrupt there" },
	{ "stack", ROW_TEXT, ROW_PLAIN, 0,
	  "the program's functions, the innermost first; without switch/callchain/ its place" },
	{ "kernel_stack", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "the kernel's functions, likewise" },
};
static ROW_TABLE(report_wait_stack_table, "wait_stack",
		 "For how long threads were off their CPUs, by stack (--waits).",
		 wait_stack_columns);

static void wait_stack_make(void *data, size_t number, struct row_value *row)
{
	struct waits_printing *printing = data;
	const struct report_threads *threads = printing->threads;
	const struct wait_row *wait = &printing->rows[number];
	const struct wait_sum *sum = wait->sum;

	printing->letter[0] = letter_of(sum->as);
	ROWS_FILL(row, wait_stack_columns, row_text(threads->thread_names[sum->thread]),
		  row_text(printing->letter), row_u64(wait->count), row_u64(wait->off_ns),
		  wait->woken ? row_u64(wait->asleep_ns) : row_null(), row_u64(wait->max_ns),
		  row_text(waker_text(threads, sum, printing->waker)),
		  row_text(off_text(threads, sum->image, sum->stack, sum->place, sum->first_ns,
				    printing->stack)),
		  row_text(sum->stack ? report_stack_text(&threads->stacks.stacks, sum->stack, 1,
							  printing->kernel)
				      : NULL));
}

static const struct row_column wait_waker_columns[] = {
	{ "thread", ROW_TEXT, ROW_PLAIN, 0, "the name of the thread that waited" },
	{ "pid", ROW_U64, ROW_PLAIN, ROW_DETAIL, "its process" },
	{ "tid", ROW_U64, ROW_PLAIN, 0, "its number" },
	{ "waker", ROW_TEXT, ROW_PLAIN, 0,
	  "the thread that woke it; \"idle CPU\" is an interrupt there; null: not known" },
	{ "waker_pid", ROW_U64, ROW_PLAIN, ROW_DETAIL, "the waker's process" },
	{ "waker_tid", ROW_U64, ROW_PLAIN, ROW_DETAIL, "the waker; 0 is an idle CPU" },
	{ "count", ROW_U64, ROW_COUNT, 0, "how often" },
	{ "time", ROW_U64, ROW_NS, 0, "off a CPU, until it ran again" },
	{ "asleep", ROW_U64, ROW_NS, 0, "of that, until it was woken" },
	{ "max", ROW_U64, ROW_NS, 0, "the longest time off a CPU" },
};
static ROW_TABLE(report_wait_waker_table, "wait_waker",
		 "For how long threads waited, and for whom (--waits).", wait_waker_columns);

static void wait_waker_make(void *data, size_t number, struct row_value *row)
{
	struct waits_printing *printing = data;
	const struct report_threads *threads = printing->threads;
	const struct wait_row *wait = &printing->rows[number];
	const struct wait_sum *sum = wait->sum;
	const struct thread_record *thread = &threads->switches.states.threads[sum->thread];
	int is_known = sum->waker_tid <= INT32_MAX;

	ROWS_FILL(row, wait_waker_columns, row_text(threads->thread_names[sum->thread]),
		  row_u64(thread->pid), row_u64(thread->tid),
		  row_text(waker_text(threads, sum, printing->waker)),
		  is_known ? row_u64(sum->waker_pid) : row_null(),
		  is_known ? row_u64(sum->waker_tid) : row_null(), row_u64(wait->count),
		  row_u64(wait->off_ns), wait->woken ? row_u64(wait->asleep_ns) : row_null(),
		  row_u64(wait->max_ns));
}

static void waits_put(struct rows *rows, const struct report *report, const struct row_table *table,
		      const struct wait_row *waits, size_t count,
		      void (*make)(void *data, size_t number, struct row_value *row),
		      const struct rows_layout *layout)
{
	struct waits_printing printing = { .threads = &report->threads, .rows = waits };
	const struct rows_sorted sorted = { .table = table,
					    .column = (unsigned int)rows_column(table, "time"),
					    .count = count,
					    .make = make,
					    .data = &printing };

	rows_put_sorted(rows, &sorted, layout);
}

void report_waits_print(struct rows *rows, const struct report *report,
			const struct rows_layout *layout)
{
	const struct report_threads *threads = &report->threads;
	size_t count;
	struct wait_row *stacks = rows_unite(threads, by_stack_and_waker, by_stack, 1, &count);

	if (!stacks)
		rows->out->error = -ENOMEM;
	else
		waits_put(rows, report, &report_wait_stack_table, stacks, count, wait_stack_make,
			  layout);
	free(stacks);
	waits_put(rows, report, &report_wait_waker_table, threads->wakers, threads->waker_count,
		  wait_waker_make, layout);
}

/* ---- all ---- */

/* Those with a switch or a time: they are in front of the others. */
static size_t shown_count(const struct report_threads *threads)
{
	size_t count = threads->count;

	while (count && !threads->all[count - 1]->switches &&
	       !threads->all[count - 1]->ns[THREAD_TIME_RUNNING])
		count--;
	return count;
}

void report_threads_print(struct rows *rows, const struct report *report)
{
	const struct report_threads *threads = &report->threads;
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
		for (uint8_t as = 0; as <= THREAD_LETTER_COUNT; as++)
			wait_row(rows, threads, threads->all[i], as);
	rows_close(rows);
	if (!is_text)
		report_waits_print(rows, report, NULL);
}
