/* SPDX-License-Identifier: MIT */
#include "base/quantity.h"
#include "cli/child.h"
#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/count_list.h"
#include "cli/output.h"
#include "record/perf/counter_claims.h"
#include "record/perf/cpus.h"
#include "record/perf/counts.h"
#include "read/rows/render.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define TICK_MS 50 /* as often, CPUs that came are looked for, and whether processes have ended */
#define INTERVAL_NS_MIN 1000000
#define RUNS_MAX 1000000

static const char usage[] =
	"Usage: waymark stat [OPTION]... [--] CMD [ARG]...\n"
	"       waymark stat [OPTION]... {-p PID | -t TID}...\n"
	"       waymark stat [OPTION]... {-a | -C LIST} [--] [CMD [ARG]...]\n"
	"\n"
	"Count events of a program, of threads, or of CPUs: time on CPU, switches, page faults; cycles,\n"
	"instructions and the like where the processor's counters are there. Threads and processes that\n"
	"they start are included. The table is on stderr; the program's own output stays as it is.\n"
	"\n"
	"  -e, --event LIST    what to count: names with commas between; {A,B} are counted at the same\n"
	"                      times; A:u in user space alone, A:k in the kernel. May be given again.\n"
	"                      See them: waymark list --events\n"
	"  -p, --pid PID       a running process; several may be given\n"
	"  -t, --tid TID       a running thread; several may be given\n"
	"  -a, --all           all CPUs, also those that come later\n"
	"  -C, --cpu LIST      these CPUs: 0-3,6\n"
	"  -G, --cgroup PATH   with -a or -C: what this cgroup runs there\n"
	"  --no-children       leave out threads and processes that the counted ones start\n"
	"  -I, --interval TIME print what came in each interval, as 1s, 100ms\n"
	"  -r, --repeat N      run the program N times; print means, and their standard errors\n"
	"  --for TIME          stop after this time, as 500ms, 10s, 2m\n"
	"  -o, --output FILE   print there\n"
	"  -j, --json          as JSON, on stdout: an object; with -I one on each line\n"
	"  -h, --help          this text\n";

struct stat_row {
	struct count_event event;
	struct count_value value; /* of the last run */
	double mean, squares;	  /* of scaled counts, over all runs: Welford's */
};

struct stat_result {
	struct stat_row *rows;
	size_t row_count;
	const char *what; /* is counted */
	unsigned int runs;
	double elapsed_s, elapsed_squares; /* mean, and as of a row */
	double user_s, system_s;	   /* of a command's last run */
	int has_command;
	int status; /* the command's, where there is one */
	/* they would be among the rows by default */
	int lacks_hardware, lacks_switches;
	struct counts_coverage coverage;
};

struct counting {
	struct stat_result result;
	struct count_list list;
	struct command_ids pids, tids;
	struct command_ids *ids; /* one of the two */
	unsigned int *cpus;
	size_t cpu_count;
	const char *cgroup, *output_path;
	char **command;
	int all, json, no_children, has_failed;
	uint64_t interval_ns, for_ns, runs;
	int fd; /* to print to */
};

/* Whether the kernel lets us have the event of ourselves: 0, or an error. */
static int probe(const char *name)
{
	char words[256];
	struct detail detail = { words, sizeof(words) };
	struct count_event event;
	int err = count_event_read(&event, name, detail);

	return err ? err : count_event_probe(&event, detail);
}

/* Without --event; those of hardware, and of the kernel alone, where they can be had. */
static int events_default(struct counting *counting)
{
	static const char *const hardware[] = { "cycles", "instructions", "branches",
						"branch-misses" };
	const char *clock = counting->all || counting->cpu_count ? "cpu-clock" : "task-clock";
	int status = count_list_add(&counting->list, clock);

	counting->result.lacks_switches = probe("context-switches") != 0;
	if (!status && !counting->result.lacks_switches)
		status = count_list_add(&counting->list, "context-switches,cpu-migrations");
	if (!status)
		status = count_list_add(&counting->list, "page-faults");
	for (size_t i = 0; i < sizeof(hardware) / sizeof(hardware[0]) && !status; i++) {
		if (!probe(hardware[i]))
			status = count_list_add(&counting->list, hardware[i]);
		else
			counting->result.lacks_hardware |= !i;
	}
	return status;
}

/* ---- options ---- */

static int is_among(const struct command_ids *ids, pid_t id)
{
	for (size_t i = 0; i < ids->count; i++)
		if (ids->all[i] == id)
			return 1;
	return 0;
}

/* Each once; of a thread's number, -p takes the process. */
static int ids_find(struct counting *counting)
{
	struct command_ids *ids = counting->ids;
	size_t given = ids->count;

	ids->count = 0;
	for (size_t i = 0; i < given; i++) {
		struct target target;
		int is_process = ids == &counting->pids, err = target_read(&target, ids->all[i]);
		pid_t id = is_process ? target.pid : ids->all[i];

		if (err)
			return complain(err, "%s %d", is_process ? "process" : "thread",
					(int)ids->all[i]);
		if (!is_among(ids, id))
			ids->all[ids->count++] = id;
	}
	return CLI_FINE;
}

static int events_take(void *data, const struct command_option *option, const char *text,
		       const char *name)
{
	(void)option;
	(void)name;
	return count_list_add(&((struct counting *)data)->list, text);
}

static int cpus_take(void *data, const struct command_option *option, const char *text,
		     const char *name)
{
	struct counting *counting = data;

	(void)option;
	if (counting->cpus)
		return complain_usage(name, "give --cpu once: --cpu %s", text);
	if (cpus_parse(text, &counting->cpus, &counting->cpu_count))
		return complain_usage(name, "--cpu takes numbers, such as 0-3,8, not %s", text);
	return CLI_FINE;
}

static const struct command_option table[] = {
	{ "event", 'e', COMMAND_CALL, .take = events_take },
	{ "pid", 'p', COMMAND_IDS, COMMAND_TO(counting, pids) },
	{ "tid", 't', COMMAND_IDS, COMMAND_TO(counting, tids) },
	{ "all", 'a', COMMAND_FLAG, COMMAND_TO(counting, all), .min = 1 },
	{ "cpu", 'C', COMMAND_CALL, .take = cpus_take },
	{ "cgroup", 'G', COMMAND_TEXT, COMMAND_TO(counting, cgroup) },
	{ "no-children", 0, COMMAND_FLAG, COMMAND_TO(counting, no_children), .min = 1 },
	{ "interval", 'I', COMMAND_TIME, COMMAND_TO(counting, interval_ns),
	  .min = INTERVAL_NS_MIN },
	{ "repeat", 'r', COMMAND_NUMBER, COMMAND_TO(counting, runs), .min = 1, .max = RUNS_MAX },
	{ "for", 0, COMMAND_TIME, COMMAND_TO(counting, for_ns), .min = 1 },
	{ "output", 'o', COMMAND_TEXT, COMMAND_TO(counting, output_path) },
	{ "json", 'j', COMMAND_FLAG, COMMAND_TO(counting, json), .min = 1 },
	{ .name = NULL },
};

static int is_of_cpus(const struct counting *counting)
{
	return counting->all || counting->cpus;
}

/* Options that contradict each other. */
static int check(const struct counting *counting)
{
	if (counting->pids.count && counting->tids.count)
		return complain_usage("stat", "take --pid or --tid, not both");
	if (is_of_cpus(counting) && counting->ids->count)
		return complain_usage("stat", "CPUs are counted whole: leave out --pid and --tid");
	if (counting->all && counting->cpus)
		return complain_usage("stat", "take --all or --cpu, not both");
	if (counting->cgroup && !is_of_cpus(counting))
		return complain_usage("stat", "--cgroup needs --all or --cpu");
	if (counting->ids->count && counting->command)
		return complain_usage("stat", "%s: a program is not started with --pid or --tid",
				      counting->command[0]);
	if (!counting->ids->count && !is_of_cpus(counting) && !counting->command)
		return complain_usage("stat", "name a program to run, or a process with -p");
	if (counting->runs > 1 && (!counting->command || counting->interval_ns))
		return complain_usage("stat", "--repeat needs a program, and no --interval");
	return CLI_FINE;
}

/* ---- what is printed ---- */

/* The count as if the unit had counted it all the time; -1: it never did. */
static double scaled(const struct count_value *value)
{
	if (!value->running_ns)
		return value->enabled_ns ? -1 : (double)value->count;
	return (double)value->count * ((double)value->enabled_ns / (double)value->running_ns);
}

static void mean_add(double *mean, double *squares, unsigned int runs, double value)
{
	double before = value - *mean;

	*mean += before / runs;
	*squares += before * (value - *mean);
}

/* Take the counts of a run of so many seconds into the means. */
static void run_add(struct stat_result *result, double elapsed_s)
{
	result->runs++;
	mean_add(&result->elapsed_s, &result->elapsed_squares, result->runs, elapsed_s);
	for (size_t i = 0; i < result->row_count; i++)
		mean_add(&result->rows[i].mean, &result->rows[i].squares, result->runs,
			 scaled(&result->rows[i].value));
}

/* The standard error of a mean, in percent of it. */
static double spread(double mean, double squares, unsigned int runs)
{
	if (runs < 2 || mean <= 0)
		return 0;
	return 100 * sqrt(squares / (runs - 1) / runs) / mean;
}

/* The mean count of a kernel event; below 0: it is not among the rows. */
static double mean_of(const struct stat_result *result, uint32_t type, uint64_t config)
{
	for (size_t i = 0; i < result->row_count; i++) {
		const struct stat_row *row = &result->rows[i];

		if (row->event.type == type && row->event.config == config)
			return row->mean;
	}
	return -1;
}

static double clock_of(const struct stat_result *result)
{
	double ns = mean_of(result, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK);

	return ns >= 0 ? ns : mean_of(result, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);
}

/* What a count means beside the others. */
static void relation(const struct stat_result *result, const struct stat_row *row, char *text,
		     size_t bytes)
{
	double cycles = mean_of(result, PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
	double branches = mean_of(result, PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS);
	double clock_ns = clock_of(result), per_s;

	text[0] = '\0';
	if (!strcmp(row->event.unit, "ns")) {
		if (result->elapsed_s > 0)
			snprintf(text, bytes, "%.3f CPUs used",
				 row->mean / 1e9 / result->elapsed_s);
		return;
	}
	if (row->event.type == PERF_TYPE_HARDWARE && cycles > 0 &&
	    row->event.config == PERF_COUNT_HW_INSTRUCTIONS) {
		snprintf(text, bytes, "%.2f per cycle", row->mean / cycles);
		return;
	}
	if (row->event.type == PERF_TYPE_HARDWARE && branches > 0 &&
	    row->event.config == PERF_COUNT_HW_BRANCH_MISSES) {
		snprintf(text, bytes, "%.2f %% of all branches", 100 * row->mean / branches);
		return;
	}
	if (clock_ns <= 0 || row->event.unit[0])
		return;
	per_s = row->mean / (clock_ns / 1e9);
	snprintf(text, bytes, "%.3f %s/s",
		 per_s >= 1e9	? per_s / 1e9
		 : per_s >= 1e6 ? per_s / 1e6
		 : per_s >= 1e3 ? per_s / 1e3
				: per_s,
		 per_s >= 1e9	? "G"
		 : per_s >= 1e6 ? "M"
		 : per_s >= 1e3 ? "K"
				: "");
}

static void count_text(const struct stat_row *row, double count, char *text, size_t bytes)
{
	if (count < 0)
		snprintf(text, bytes, "<not counted>");
	else if (!strcmp(row->event.unit, "ns"))
		snprintf(text, bytes, "%.2f ms", count / 1e6);
	else if (row->event.unit[0] || row->event.scale < 1 || row->event.scale > 1)
		snprintf(text, bytes, "%.2f %s", count * row->event.scale, row->event.unit);
	else
		quantity_show_count((uint64_t)(count + 0.5), text, bytes);
}

static int is_scaled(const struct stat_row *row)
{
	return row->value.running_ns && row->value.running_ns < row->value.enabled_ns;
}

static const struct row_column count_columns[] = {
	{ "at", ROW_U64, ROW_SINCE, 0, "with -I: the interval's end" },
	{ "count", ROW_DOUBLE, ROW_PLAIN, 0,
	  "of the last run, scaled; null: it was never counted" },
	{ "unit", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "null for plain counts" },
	{ "event", ROW_TEXT, ROW_PLAIN, 0, "what was counted" },
	{ "note", ROW_TEXT, ROW_PLAIN, 0, "what the count means beside the others" },
	{ "scale", ROW_DOUBLE, ROW_PLAIN, ROW_DETAIL, "a count is so many of its unit" },
	{ "enabled", ROW_U64, ROW_NS, ROW_DETAIL, "how long it was wanted" },
	{ "running", ROW_U64, ROW_NS, ROW_DETAIL, "how long it was counted" },
	{ "scaled", ROW_BOOL, ROW_PLAIN, ROW_DETAIL, "it was not counted all that time" },
	{ "mean", ROW_DOUBLE, ROW_PLAIN, ROW_DETAIL, "with -r: of all runs" },
	{ "error", ROW_DOUBLE, ROW_SHARE, 0, "with -r: the mean's standard error" },
	{ "counted", ROW_DOUBLE, ROW_SHARE, 0, "the share of the time, where the count is scaled" },
};
static ROW_TABLE(count_table, "counted", "What an event came to.", count_columns);

static const struct row_column counting_columns[] = {
	{ "what", ROW_TEXT, ROW_PLAIN, 0, "is counted" },
	{ "at", ROW_U64, ROW_SINCE, 0, "with -I: the interval's end" },
	{ "elapsed", ROW_U64, ROW_NS, 0, "the mean of all runs" },
	{ "runs", ROW_U64, ROW_COUNT, 0, "as -r has it" },
	{ "user", ROW_U64, ROW_NS, 0, "of a program's last run" },
	{ "system", ROW_U64, ROW_NS, 0, "likewise" },
	{ "status", ROW_S64, ROW_PLAIN, 0, "the program's" },
	{ "threads", ROW_U64, ROW_COUNT, 0, "on which the events were opened" },
	{ "cpus", ROW_U64, ROW_COUNT, 0, "likewise" },
	{ "cpus_back", ROW_U64, ROW_COUNT, 0, "how often a CPU came or came back" },
	{ "excludes_kernel", ROW_BOOL, ROW_PLAIN, 0, "user space alone was counted" },
	{ "doubtful", ROW_BOOL, ROW_PLAIN, 0, "threads that started meanwhile may be missing" },
};
static ROW_TABLE(counting_table, "counting", "A run of waymark stat, or an interval of it.",
		 counting_columns);

/* A time, in ns. */
static struct row_value row_seconds(double seconds)
{
	return row_u64((uint64_t)(seconds * 1e9 + 0.5));
}

static void put_counting(const struct stat_result *result, struct rows *rows, double at_s)
{
	const struct counts_coverage *coverage = &result->coverage;
	int is_interval = at_s >= 0, has_end = result->has_command && !is_interval;

	rows_record(rows, &counting_table,
		    (const struct row_value[]){
			    row_text(result->what), is_interval ? row_seconds(at_s) : row_null(),
			    is_interval ? row_null() : row_seconds(result->elapsed_s),
			    is_interval ? row_null() : row_u64(result->runs),
			    has_end ? row_seconds(result->user_s) : row_null(),
			    has_end ? row_seconds(result->system_s) : row_null(),
			    has_end ? row_s64(result->status) : row_null(),
			    row_u64(coverage->threads), row_u64(coverage->cpus),
			    row_u64(coverage->cpus_back), row_bool(coverage->excludes_kernel),
			    row_bool(coverage->is_doubtful) });
}

static void put_row(const struct stat_result *result, struct rows *rows, const struct stat_row *row,
		    double at_s)
{
	int is_text = rows->format == ROWS_TEXT;
	double now = scaled(&row->value), count = at_s < 0 && is_text ? row->mean : now;
	int has_mean = result->runs > 1 && row->mean >= 0;
	char text[48], note[64] = "";

	count_text(row, count, text, sizeof(text));
	if (at_s < 0 && row->mean >= 0)
		relation(result, row, note, sizeof(note));
	ROWS_PUT(rows, count_columns, at_s < 0 ? row_null() : row_seconds(at_s),
		 is_text	  ? row_text(text)
		 : now < 0	  ? row_null()
		 : is_scaled(row) ? row_double(now)
				  : row_u64(row->value.count),
		 row_words(row->event.unit), row_text(row->event.name), row_words(note),
		 row_double(row->event.scale), row_u64(row->value.enabled_ns),
		 row_u64(row->value.running_ns), row_bool(is_scaled(row)),
		 has_mean ? row_double(row->mean) : row_null(),
		 has_mean ? row_double(spread(row->mean, row->squares, result->runs)) : row_null(),
		 is_scaled(row) ? row_double(100 * (double)row->value.running_ns /
					     (double)row->value.enabled_ns)
				: row_null());
}

static void put_notes(const struct stat_result *result, struct rows *rows)
{
	rows_note(rows, "%.9f seconds elapsed", result->elapsed_s);
	if (result->runs > 1)
		rows_note(rows, "(+- %.2f %%, of %u runs)",
			  spread(result->elapsed_s, result->elapsed_squares, result->runs),
			  result->runs);
	if (result->has_command)
		rows_note(rows, "%.6f seconds user, %.6f seconds system", result->user_s,
			  result->system_s);
	if (result->lacks_hardware)
		rows_note(
			rows,
			"No cycles and instructions: this machine shows no counters of its processor.");
	if (result->lacks_switches)
		rows_note(
			rows,
			"Without switches and migrations: this user may not count in the kernel.");
	if (result->coverage.excludes_kernel)
		rows_note(
			rows,
			"User space alone: kernel.perf_event_paranoid forbids to count in the kernel.");
	if (result->coverage.is_doubtful)
		rows_note(
			rows,
			"The process could not be stopped: threads that started at the same time may be missing.");
}

/*
 * Print a table, or one JSON object; at_s from 0 on: what came in an interval that ended so many
 * seconds after the begin, without titles, or as JSON lines. 0 or a negative error.
 */
static int show(const struct stat_result *result, double at_s, int json, int fd)
{
	static const unsigned char widths[] = { 12, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
	static struct out out;
	int is_interval = at_s >= 0;
	char title[4096];
	struct rows rows;

	out_init(&out, fd);
	snprintf(title, sizeof(title), "Counts of %s", result->what);
	rows_begin(&rows, &out, !json ? ROWS_TEXT : is_interval ? ROWS_JSON_LINES : ROWS_JSON);
	if (json)
		put_counting(result, &rows, at_s);
	rows_open(&rows, &count_table,
		  is_interval ? &(struct rows_layout){ .widths = widths,
						       .is_bare = 1,
						       .hidden = 1 << 4 | 1 << 10 | 1 << 11 }
			      : &(struct rows_layout){ .title = title });
	for (size_t i = 0; i < result->row_count; i++)
		put_row(result, &rows, &result->rows[i], at_s);
	rows_close(&rows);
	if (!is_interval)
		put_notes(result, &rows);
	return rows_end(&rows);
}

/* ---- one run ---- */

static int has_ended(const struct counting *counting)
{
	for (size_t i = 0; i < counting->ids->count; i++) {
		pid_t id = counting->ids->all[i];
		struct target target;
		char state;

		if (counting->ids == &counting->pids) {
			if (!target_read(&target, id) && !target_has_ended(&target))
				return 0;
			continue;
		}
		state = target_thread_state(id, id);
		if (state && state != 'Z')
			return 0;
	}
	return counting->ids->count != 0;
}

static int read_counts(struct counting *counting, struct counts *counts)
{
	struct count_value *values = calloc(counting->list.count, sizeof(*values));
	int err = values ? counts_read(counts, values) : -ENOMEM;

	for (size_t i = 0; i < counting->list.count && !err; i++)
		counting->result.rows[i].value = values[i];
	free(values);
	counts_covered(counts, &counting->result.coverage);
	return err;
}

/* Print what came since `before`, which becomes what is there now. */
static int show_interval(struct counting *counting, struct counts *counts,
			 struct count_value *before, double at_s)
{
	int err = read_counts(counting, counts);

	for (size_t i = 0; i < counting->list.count && !err; i++) {
		struct count_value *value = &counting->result.rows[i].value, now = *value;

		value->count -= before[i].count;
		value->enabled_ns -= before[i].enabled_ns;
		value->running_ns -= before[i].running_ns;
		before[i] = now;
	}
	if (err)
		return err;
	return show(&counting->result, at_s, counting->json, counting->fd);
}

/* Wait for the end of what is counted, of the time, or for a signal. Prints at intervals. */
static int wait_and_show(struct counting *counting, struct counts *counts, struct child *command,
			 uint64_t begin_ns)
{
	struct count_value *before = calloc(counting->list.count, sizeof(*before));
	uint64_t next_ns = counting->interval_ns ? begin_ns + counting->interval_ns : UINT64_MAX;
	uint64_t end_ns = counting->for_ns ? begin_ns + counting->for_ns : UINT64_MAX;
	uint64_t follow_ns = 0, at_ns = begin_ns;
	int is_over = 0, err = before ? 0 : -ENOMEM;

	while (!err && !is_over) {
		uint64_t until_ns = at_ns + TICK_MS * 1000000ull;
		struct pollfd ended = { .fd = command ? command->pidfd : -1, .events = POLLIN };
		struct timespec left;

		until_ns = next_ns < until_ns ? next_ns : until_ns;
		until_ns = end_ns < until_ns ? end_ns : until_ns;
		until_ns = until_ns > at_ns ? until_ns - at_ns : 0;
		left = (struct timespec){ (time_t)(until_ns / 1000000000),
					  (long)(until_ns % 1000000000) };
		ppoll(&ended, 1, &left, NULL);
		at_ns = ticks_monotonic_ns();
		if (command)
			child_pass_signal_on(command);
		is_over = child_interrupts() || at_ns >= end_ns ||
			  (command && child_reap(command, WNOHANG));
		if (at_ns >= follow_ns) {
			is_over = is_over || (!command && has_ended(counting));
			err = counts_follow(counts);
			follow_ns = at_ns + TICK_MS * 1000000ull;
		}
		if (!err && (at_ns >= next_ns || (is_over && counting->interval_ns))) {
			err = show_interval(counting, counts, before,
					    (double)(at_ns - begin_ns) / 1e9);
			while (next_ns <= at_ns) /* those that we slept through are in this one */
				next_ns += counting->interval_ns;
		}
	}
	free(before);
	return err;
}

static double seconds_of(struct timeval time)
{
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static struct counts_request request_of(const struct counting *counting, const pid_t *child,
					int cgroup_fd)
{
	struct counts_request request = {
		.events = counting->list.events,
		.groups = counting->list.groups,
		.event_count = counting->list.count,
		.ids = counting->ids->all,
		.id_count = counting->ids->count,
		.cpus = counting->cpus,
		.cpu_count = counting->cpu_count,
		.cgroup_fd = cgroup_fd,
		.no_children = counting->no_children,
	};

	if (is_of_cpus(counting)) {
		request.scope = COUNTS_CPUS;
	} else if (counting->command) {
		request.scope = COUNTS_COMMAND;
		request.ids = child;
		request.id_count = 1;
	} else {
		request.scope = counting->ids == &counting->pids ? COUNTS_PROCESSES
								 : COUNTS_THREADS;
	}
	return request;
}

/* Returns an exit status; the program's is in *status. */
static int run(struct counting *counting, int cgroup_fd, int *status)
{
	char words[512] = "";
	struct child command = { 0 };
	struct counts_request request;
	struct rusage before, after;
	struct counter_claims claims;
	struct counts *counts = NULL;
	uint64_t begin_ns;
	int err = counting->command ? child_start(&command, counting->command) : 0;

	if (err)
		return complain(err, "%s", counting->command[0]);
	getrusage(RUSAGE_CHILDREN, &before);
	request = request_of(counting, &command.pid, cgroup_fd);
	err = counter_claims_take(&claims, &request, NULL, 0,
				  (struct detail){ words, sizeof(words) });
	if (!err)
		err = counts_open(&counts, &request, (struct detail){ words, sizeof(words) });
	if (!err && request.scope != COUNTS_COMMAND)
		counts_enable(counts);
	begin_ns = ticks_monotonic_ns();
	if (!err && counting->command) {
		err = child_go(&command);
		if (err)
			snprintf(words, sizeof(words), "%s", counting->command[0]);
	}
	if (!err)
		err = wait_and_show(counting, counts, counting->command ? &command : NULL,
				    begin_ns);
	if (!err)
		err = read_counts(counting, counts);
	if (!err)
		run_add(&counting->result, (double)(ticks_monotonic_ns() - begin_ns) / 1e9);
	counts_close(counts);
	counter_claims_give(&claims);
	if (counting->command) {
		child_wait(&command);
		getrusage(RUSAGE_CHILDREN, &after);
		counting->result.user_s = seconds_of(after.ru_utime) - seconds_of(before.ru_utime);
		counting->result.system_s = seconds_of(after.ru_stime) -
					    seconds_of(before.ru_stime);
		*status = command.status;
		counting->result.status = *status;
	}
	counting->has_failed = err != 0;
	if (!err || (err == -EPIPE && !words[0])) /* the reader has closed the pipe */
		return CLI_FINE;
	return complain(err, "%s", words[0] ? words : "the output");
}

static void name_scope(const struct counting *counting, char *text, size_t bytes)
{
	int is_process = counting->ids == &counting->pids;
	size_t at;

	if (counting->ids->count) {
		at = (size_t)snprintf(text, bytes, "%s%s", is_process ? "process" : "thread",
				      counting->ids->count < 2 ? ""
				      : is_process	       ? "es"
							       : "s");
		for (size_t i = 0; i < counting->ids->count && at < bytes; i++)
			at += (size_t)snprintf(text + at, bytes - at, "%s %d", i ? "," : "",
					       (int)counting->ids->all[i]);
	} else if (is_of_cpus(counting)) {
		snprintf(text, bytes, "%s%s%s", counting->all ? "all CPUs" : "some CPUs",
			 counting->cgroup ? ", cgroup " : "",
			 counting->cgroup ? counting->cgroup : "");
	} else {
		at = (size_t)snprintf(text, bytes, "'%s", counting->command[0]);
		for (char **word = counting->command + 1; *word && at < bytes; word++)
			at += (size_t)snprintf(text + at, bytes - at, " %s", *word);
		if (at < bytes)
			snprintf(text + at, bytes - at, "'");
	}
}

static int count(struct counting *counting, int cgroup_fd)
{
	int status = CLI_FINE, failed = CLI_FINE;
	uint64_t runs = counting->runs ? counting->runs : 1;
	int err = 0;

	child_catch_signals();
	signal(SIGCHLD, SIG_DFL); /* or the program's status is lost */
	for (uint64_t i = 0; i < runs && !counting->has_failed && !(i && child_interrupts()); i++)
		failed = run(counting, cgroup_fd, &status);
	if (failed)
		return failed;
	if (!counting->interval_ns) {
		err = show(&counting->result, -1, counting->json, counting->fd);
		counting->has_failed = err != 0;
	}
	if (err && err != -EPIPE)
		return complain(err, "%s",
				counting->output_path ? counting->output_path : "the output");
	return counting->command ? status : CLI_FINE;
}

static int count_to_output(struct counting *counting, int cgroup_fd)
{
	struct output output;
	int status, err;

	if (!counting->output_path) {
		counting->fd = counting->json ? STDOUT_FILENO : STDERR_FILENO;
		return count(counting, cgroup_fd);
	}
	err = output_open(&output, counting->output_path);
	if (err)
		return complain(err, "%s", counting->output_path);
	counting->fd = output.fd;
	status = count(counting, cgroup_fd);
	err = output_close(&output, counting->has_failed);
	return err ? complain(err, "%s", counting->output_path) : status;
}

static int count_in_cgroup(struct counting *counting)
{
	int fd = -1, status;

	if (counting->cgroup) {
		fd = open(counting->cgroup, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return complain(-errno, "%s", counting->cgroup);
	}
	status = count_to_output(counting, fd);
	if (fd >= 0)
		close(fd);
	return status;
}

int cmd_stat(int argc, char **argv)
{
	static const struct command_line line = { "stat", usage, table, 1 };
	struct counting counting = { 0 };
	char what[4096];
	int status = command_line_read(&line, argc, argv, &counting);

	if (status < 0) {
		counting.command = optind < argc ? argv + optind : NULL;
		counting.ids = counting.tids.count ? &counting.tids : &counting.pids;
		status = check(&counting);
		if (!status)
			status = ids_find(&counting);
		if (!status && !counting.list.count)
			status = events_default(&counting);
		if (!status) {
			name_scope(&counting, what, sizeof(what));
			counting.result.what = what;
			counting.result.has_command = counting.command != NULL;
			counting.result.row_count = counting.list.count;
			counting.result.rows = calloc(counting.list.count,
						      sizeof(*counting.result.rows));
			if (!counting.result.rows)
				status = complain(-ENOMEM, NULL);
		}
		for (size_t i = 0; i < counting.result.row_count && !status; i++)
			counting.result.rows[i].event = counting.list.events[i];
		if (!status)
			status = count_in_cgroup(&counting);
	}
	free(counting.result.rows);
	count_list_release(&counting.list);
	free(counting.pids.all);
	free(counting.tids.all);
	free(counting.cpus);
	return status;
}
