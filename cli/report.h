/* SPDX-License-Identifier: MIT */
/*
 * A trace's summary on stdout, for people and for programs.
 */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "cli/lock_names.h"
#include "cli/watch_writers.h"
#include "read/history/samples.h"
#include "read/locks/locks.h"
#include "read/locks/wait_calls.h"
#include "read/pass/summary.h"
#include "read/pass/thread_names.h"
#include "read/rows/rows_sorted.h"
#include "read/spans/span_calls.h"
#include "read/states/switches.h"
#include "read/states/waits.h"
#include "read/sums/sum_rows.h"
#include "record/watch/watches.h"
#include "trace/process_records.h"

/* Parts of a report that are printed alone. */
enum report_view {
	VIEW_SAMPLES = 1,
	VIEW_SPANS = 2,
	VIEW_CALLS = 4,
	VIEW_SLOWEST = 8,
	VIEW_WAITS = 16,
	VIEW_SUMS = 32
};

/* What of the trails is there and what is not. */
struct report_trails {
	uint64_t threads;      /* that have a trail, or had one */
	uint64_t blocks;       /* that ran, as far as they are there */
	uint64_t places, lost; /* where blocks are missing; how many, that are known of */
	uint64_t unrecorded;   /* places where code ran unrecorded */
	uint64_t cut;	       /* threads whose recording was cut off */
	uint64_t damaged;      /* threads whose trail is damaged, or gone */
};

/* ---- samples of the kernel, by function, line, caller or thread: a table for each event ---- */

enum samples_by { SAMPLES_BY_FUNCTION, SAMPLES_BY_LINE, SAMPLES_BY_THREAD, SAMPLES_BY_CALLER };

struct report_samples_options {
	enum samples_by by;
	const char *callee; /* whose callers are wanted: its name, or a glob */
	uint64_t top;	    /* rows of each table; 0: all */
	struct samples_options samples;
};

struct samples_row {
	const struct function *function; /* NULL: of a thread or line, or there is no caller */
	struct image_line line;
	const struct samples_thread *thread;
	uint64_t count;	      /* samples in it, or that it called */
	uint64_t self, total; /* weights: in itself; with what it called */
};

struct samples_table {
	struct samples_row *rows; /* the heaviest first */
	size_t count, room;
	uint64_t weight, samples; /* of all; of callers, of the callee */
};

struct report_samples {
	struct samples samples;
	struct samples_table *tables; /* by event; NULL: the trace has no samples */
	const struct report_samples_options *options;
};

/* ---- what the watches came to, and where their hits come from ---- */

struct report_watch {
	struct watched_spec watched;
	int unproven; /* watch_counts_text() */
};

struct report_watches {
	struct pass_observer observer; /* of the hits */
	struct report_watch *all;      /* what each came to; none if the recorder was killed */
	size_t count;
	struct watch_wheres *wheres; /* the report's */
	struct writers *writers;     /* NULL where no watch can have been hit */
	uint64_t hits;
};

/* What the threads did with their time: where switches were recorded. */
struct report_threads {
	const struct thread_record **all; /* those recorded, what ran longest first */
	size_t count;			  /* 0: no switches were recorded */
	struct switches switches;
	uint32_t pid, tid; /* whose waits are wanted; 0: all */
	struct waits waits;
	struct samples stacks;	   /* of departures, where they have callers */
	const char **thread_names; /* of all of the switches' */
	size_t *first_waits;	   /* of each of these, in waits.all[] */
	struct wait_row *wakers;   /* by thread */
	size_t waker_count;
	const struct trace_reader *reader;
	struct thread_names names;
	struct process_numbers numbers;
	struct watch_wheres *wheres; /* the report's */
};

/* ---- what threads waited for in calls of the C library (--waits) ---- */

struct report_wait_calls {
	struct wait_calls calls;
	struct samples stacks; /* their stacks and threads */
};

/* ---- who held a mutex while others waited (--locks) ---- */

struct report_locks {
	struct locks locks;
	struct images *images;
	struct watch_wheres *wheres;
	struct thread_names names;
};

/* ---- sums in place of events ---- */

struct report_sums {
	struct sums sums;
	struct watch_wheres *wheres; /* the report's */
};

/* All that a report prints. */
struct report {
	const char *dir;
	struct trace_reader *reader;
	struct summary *summary;
	struct span_calls calls;
	struct report_slow *slow; /* beside calls.slow; NULL: not asked for */
	const struct span_slow **slow_by_begin;
	struct images images;
	struct watch_wheres *wheres;
	struct report_trails trails;
	struct report_watches watches;
	struct report_threads threads;
	struct report_samples samples;
	struct report_locks locks;
	struct report_wait_calls wait_calls;
	struct report_sums sums;
	unsigned int span_sort; /* a column of report_span_table */
	uint64_t top;		/* rows of a table; 0: all */
};

/* Columns of a row with times by state, and their values, of enum thread_time. */
#define TIME_COLUMNS                                                                               \
	{ "running", ROW_U64, ROW_NS, 0, "on a CPU" },                                             \
		{ "runnable", ROW_U64, ROW_NS, 0, "ready to run, without a CPU" },                 \
		{ "asleep", ROW_U64, ROW_NS, 0, "it waited" },                                     \
		{ "waiting", ROW_U64, ROW_NS, ROW_QUIET,                                           \
		  "asleep, then perhaps runnable: not all wakes are recorded" },                   \
	{                                                                                          \
		"unknown", ROW_U64, ROW_NS, ROW_QUIET, "events of its CPU are missing"             \
	}

#define TIME_VALUES(is_known, ns)                                                                  \
	(is_known) ? row_u64((ns)[THREAD_TIME_RUNNING]) : row_null(),                              \
		(is_known) ? row_u64((ns)[THREAD_TIME_RUNNABLE]) : row_null(),                     \
		(is_known) ? row_u64((ns)[THREAD_TIME_ASLEEP]) : row_null(),                       \
		(is_known) ? row_u64((ns)[THREAD_TIME_WAITING]) : row_null(),                      \
		(is_known) ? row_u64((ns)[THREAD_TIME_UNKNOWN]) : row_null()

/* All zero where it has none. Damage that is found is the reader's. 0 or -errno. */
int report_trails(struct report_trails *sum, struct trace_reader *reader);

/*
 * Begin to observe a pass over the trace that `summary` sums up. Without switches there is nothing
 * to observe. 0 or an error. Release also after an error.
 */
int report_threads(struct report_threads *threads, struct images *images,
		   const struct summary *summary, struct watch_wheres *wheres);

/* The pass is over. 0 or -ENOMEM. */
int report_threads_finish(struct report_threads *threads);
void report_threads_release(struct report_threads *threads);

/* Begin to observe a pass over the trace, if it has samples. 0 or an error. Release in any case. */
int report_samples(struct report_samples *report, struct images *images,
		   const struct report_samples_options *options);

/* The pass is over. 0 or -ENOMEM. */
int report_samples_finish(struct report_samples *report);
void report_samples_release(struct report_samples *report);

/* A table of the events; and one of what they hit, in text for each event. */
void report_samples_print(const struct report_samples *report, struct rows *rows);

/* Begin to observe a pass over the trace, if it has hits. 0 or an error. Release in any case. */
int report_watches(struct report_watches *watches, const struct trace_reader *reader,
		   struct watch_wheres *wheres);
void report_watches_release(struct report_watches *watches);

void report_watches_print(const struct report_watches *watches, struct rows *rows);

extern const struct row_table report_span_table;

/* Spans, their histograms and counts; the parts that are asked for alone; whether one is there. */
void report_spans_print(struct rows *rows, const struct report *report);
void report_spans_view(struct rows *rows, const struct report *report, unsigned int views);

/*
 * Read what the slowest spans had for fields; where switches are read, these add the times of the
 * threads in them. 0 or -ENOMEM. Release in any case.
 */
int report_slow(struct report *report);
void report_slow_release(struct report *report);
int report_spans_are_there(const struct report *report, unsigned int views);

/* Begin to observe a pass, if the trace has such calls. 0 or an error. Release in any case. */
int report_wait_calls(struct report_wait_calls *waits, struct images *images);
void report_wait_calls_release(struct report_wait_calls *waits);

#define REPORT_WAIT_BYTES 600

/* "pthread_mutex_lock(pool.lock)", "read(fd 3)", "wait4". In text[], which is returned. */
const char *report_wait_text(const struct report_wait_calls *waits, struct lock_names *names,
			     const struct wait_call *call, char text[REPORT_WAIT_BYTES]);
void report_wait_calls_print(struct rows *rows, const struct report *report,
			     const struct rows_layout *layout);

/* Read them in a pass of their own. 0 or an error. Release what is zeroed, or after an error. */
int report_locks_read(struct report_locks *locks, struct images *images);
void report_locks_print(const struct report_locks *locks, uint64_t shown, struct rows *rows);
void report_locks_release(struct report_locks *locks);

/* Print them, `shown` rows of each spec as text (0: all). 0 or -ENOMEM. */
int report_sums_print(const struct report_sums *of, uint64_t shown, struct rows *rows);

/* The same of a trace by itself, as text on standard output. 0 or an error. */
int report_sums_of(const char *dir, uint64_t shown);

/*
 * Print what changed, `shown` rows of each table as text (0: all). Returns an exit status.
 */
int report_compare(char *const dirs[2], enum rows_format format, uint64_t shown);

#define REPORT_STACK_BYTES 2048

/*
 * The functions of a stack, the innermost first: "nap < napper < main"; those of the kernel, or the
 * others. NULL: it has none. In text[].
 */
const char *report_stack_text(const struct stacks *stacks, uint32_t stack, int is_kernel,
			      char text[REPORT_STACK_BYTES]);

/* Threads and their waits; the tables of waits by stack and by waker. */
void report_threads_print(struct rows *rows, const struct report *report);
void report_waits_print(struct rows *rows, const struct report *report,
			const struct rows_layout *layout);

void report_print(const struct report *report, struct rows *rows);

#endif
