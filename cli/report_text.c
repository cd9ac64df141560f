/* SPDX-License-Identifier: MIT */
#include "abi/cost.h"
#include "base/out.h"
#include "cli/report.h"
#include "cli/watch_counts.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define BAR_WIDTH 40
#define LOSSY_SHOWN_MAX 10
#define PROCESSES_SHOWN_MAX 20
#define CHANGES_SHOWN_MAX 20
#define WRITERS_SHOWN_MAX 20 /* of each watch */

double report_ns(const struct summary_span *span, uint64_t ticks)
{
	return (double)ticks * 1e9 / (double)span->ticks_hz;
}

/* The next bound after 1, 2, 5, 10, ...; or only after 1, 10, ... */
static uint64_t next_bound(uint64_t bound, int coarse)
{
	uint64_t power = 1;

	while (power <= bound / 10)
		power *= 10;
	if (coarse || bound / power >= 5)
		return power * 10;
	return bound / power >= 2 ? power * 5 : power * 2;
}

static int fill_rows(const struct summary_span *span, struct report_row *rows, int room, int coarse)
{
	double per_ns = (double)span->ticks_hz / 1e9;
	uint64_t min = (uint64_t)report_ns(span, span->times->min);
	uint64_t max = (uint64_t)report_ns(span, span->times->max);
	uint64_t low = 1, high, low_ticks = 0;
	int count = 0;

	while ((high = next_bound(low, coarse)) <= min)
		low = high;
	for (; low <= max || !count; low = high) {
		int last;
		uint64_t high_ticks;

		if (count == room)
			return 0;
		high = next_bound(low, coarse);
		last = high > max;
		high_ticks = last ? UINT64_MAX : (uint64_t)((double)high * per_ns);
		rows[count++] = (struct report_row){ low == 1 ? 0 : low, high,
						     histogram_between(span->times, low_ticks,
								       high_ticks) };
		low_ticks = high_ticks;
	}
	return count;
}

int report_rows(const struct summary_span *span, struct report_row rows[REPORT_ROWS_MAX])
{
	int count;

	if (!span->times->count)
		return 0;
	count = fill_rows(span, rows, REPORT_ROWS_FINE, 0);
	return count ? count : fill_rows(span, rows, REPORT_ROWS_MAX, 1);
}

const char *report_time(double ns, char text[24])
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	unsigned int unit = 0;

	while (ns >= 999.5 && unit < 3) {
		ns /= 1000;
		unit++;
	}
	snprintf(text, 24,
		 ns < 10 && unit    ? "%.2f %s"
		 : ns < 100 && unit ? "%.1f %s"
				    : "%.0f %s",
		 ns, units[unit]);
	return text;
}

static const char *size_text(uint64_t bytes, char text[24])
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
	double size = (double)bytes;
	unsigned int unit = 0;

	while (size >= 1024 && unit < 4) {
		size /= 1024;
		unit++;
	}
	snprintf(text, 24, unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
	return text;
}

/* A name that a terminal can be shown. Valid until the next. */
static const char *shown(const char *name)
{
	static char text[4096];

	out_tame(text, sizeof(text), name);
	return text;
}

static void print_begin(uint64_t ns)
{
	time_t second = (time_t)(ns / 1000000000);
	char date[32] = "?";
	struct tm parts;

	if (localtime_r(&second, &parts))
		strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &parts);
	printf("Began        %s.%09llu\n", date, (unsigned long long)(ns % 1000000000));
}

static void print_header(const char *dir, const struct trace_reader *reader,
			 const struct summary *summary)
{
	const struct facts *meta = &reader->meta;
	uint32_t count = meta->process_count, printed = 0;
	char text[24];

	printf("Trace        %s%s\n", shown(dir),
	       reader->live ? " (still being written; this is what there is so far)" : "");
	printf("Host         %s\n", shown(meta->hostname ? meta->hostname : "?"));
	for (; printed < count && printed < PROCESSES_SHOWN_MAX; printed++) {
		const char *exe = meta->processes[printed].exe;

		printf("%s %u %s\n", printed ? "            " : "Processes   ",
		       meta->processes[printed].pid, shown(exe && *exe ? exe : "?"));
	}
	if (printed < count)
		printf("             and %u more\n", count - printed);
	if (!count)
		printf("Processes    none\n");
	if (summary->end_ns)
		print_begin(summary->begin_ns);
	printf("Duration     %s\n",
	       report_time((double)(summary->end_ns - summary->begin_ns), text));
	if (reader->length_ns)
		printf("Recorded for %s\n", report_time((double)reader->length_ns, text));
	printf("Threads      %llu\n", (unsigned long long)summary->threads);
	printf("Size         %s in %u streams\n\n", size_text(reader->bytes, text),
	       reader->stream_count);
}

static int name_width(const struct summary *summary)
{
	size_t width = strlen("EVENT");

	for (uint32_t i = 0; i < summary->event_count; i++) {
		size_t bytes = summary->events[i].count ? strlen(summary->events[i].name) : 0;

		width = bytes > width ? bytes : width;
	}
	return width > 60 ? 60 : (int)width;
}

/* The recorder's notes about threads, which the user did not ask for. */
static int is_note(const struct summary_event *event)
{
	static const char *const notes[] = { "task:name", "task:waker", "task:fork", "task:exit" };

	for (size_t i = 0; event->is_kernel && i < sizeof(notes) / sizeof(*notes); i++)
		if (!strcmp(event->name, notes[i]))
			return 1;
	return 0;
}

/* Of a flight recorder, events of a busy thread cover less time than others: compare rates. */
static double weight_of(const struct summary *summary, const struct summary_event *event)
{
	return summary->is_cyclic ? event->per_second : (double)event->count;
}

static void print_events(const struct summary *summary, int width)
{
	double all_rate = 0, notes_rate = 0, all_weight = 0, notes_weight = 0;
	uint64_t notes = 0;
	uint32_t quiet = 0;

	for (uint32_t i = 0; i < summary->event_count; i++)
		all_weight += weight_of(summary, &summary->events[i]);

	printf("%-*s %13s %13s %7s %8s\n", width, "EVENT", "COUNT", "PER SECOND", "SHARE",
	       "THREADS");
	for (uint32_t i = 0; i < summary->event_count; i++) {
		const struct summary_event *event = &summary->events[i];
		double weight = weight_of(summary, event);

		if (!event->count) {
			quiet++;
			continue;
		}
		all_rate += event->per_second;
		if (is_note(event)) {
			notes += event->count;
			notes_rate += event->per_second;
			notes_weight += weight;
			continue;
		}
		printf("%-*s %13llu %13.1f %6.1f%% %8llu\n", width, shown(event->name),
		       (unsigned long long)event->count, event->per_second,
		       all_weight > 0 ? 100 * weight / all_weight : 0,
		       (unsigned long long)event->threads);
	}
	if (notes)
		printf("%-*s %13llu %13.1f %6.1f%%  names, starts and ends of threads\n", width,
		       "task:*", (unsigned long long)notes, notes_rate,
		       all_weight > 0 ? 100 * notes_weight / all_weight : 0);
	printf("%-*s %13llu %13.1f\n", width, "all", (unsigned long long)summary->total, all_rate);
	if (quiet)
		printf("%u event%s without a hit not shown; --json lists all\n", quiet,
		       quiet == 1 ? "" : "s");
	printf("\n");
}

/* Its writer has not closed it and is gone. */
static void print_counts(const struct kernel_sums *sums, int width)
{
	char text[24];

	if (sums->count)
		printf("\n%-*s %13s %10s %9s\n", width, "COUNTED", "VALUE", "PROCESS", "TIME");
	for (size_t i = 0; i < sums->count; i++) {
		const struct kernel_count *count = &sums->counts[i];
		double value = kernel_count_scaled(count);

		if (value < 0)
			strcpy(text, "not counted");
		else if (count->is_time)
			report_time(value, text);
		else
			snprintf(text, sizeof(text), "%.0f", value);
		printf("%-*s %13s", width, shown(count->name), text);
		snprintf(text, sizeof(text), "%u", count->pid);
		printf(" %10s %8.1f%%\n", count->pid ? text : "all",
		       kernel_count_is_scaled(count)
			       ? 100 * (double)count->running_ns / (double)count->enabled_ns
			       : 100.0);
	}
}

static int is_open(const struct trace_reader *reader)
{
	return reader->is_indexed && !reader->is_ended && !reader->live;
}

/*
 * No thread passes two events in a nanosecond, but a process may have written to its counts. Where
 * not all could be written, streams are missing, and nothing follows from how many there are.
 */
static int is_impossible(const struct trace_reader *reader, const struct summary *summary)
{
	uint64_t between_ns = summary->end_ns - summary->begin_ns;
	double length_ns = (double)(reader->length_ns > between_ns ? reader->length_ns
								   : between_ns);

	return !reader->write_error &&
	       (double)summary->discarded > (length_ns + 1e9) * (double)reader->stream_count;
}

static int has_scaled(const struct kernel_sums *sums)
{
	for (size_t i = 0; i < sums->count; i++)
		if (kernel_count_is_scaled(&sums->counts[i]))
			return 1;
	return 0;
}

/* What the kernel did not sample or count. */
static void print_pauses(const struct kernel_sums *sums)
{
	for (size_t i = 0; i < sums->throttle_count && i < LOSSY_SHOWN_MAX; i++)
		printf("             %s: the kernel stopped it for a while, %llu times, as it came too often\n",
		       shown(sums->throttles[i].event),
		       (unsigned long long)sums->throttles[i].times);
	for (size_t i = 0; i < sums->count; i++)
		if (kernel_count_is_scaled(&sums->counts[i]))
			printf("             %s: counters took turns; its count is scaled\n",
			       shown(sums->counts[i].name));
}

/* The recorder could not write, from some time on. */
static void print_unwritten(const struct trace_reader *reader, const char *head)
{
	if (!reader->write_error)
		return;
	printf("%-12s not all could be written: %s; names of unrecorded programs may be missing too\n",
	       head, strerror(reader->write_error));
	if (reader->unwritten_blocks)
		printf("             %llu blocks of trails were not written\n",
		       (unsigned long long)reader->unwritten_blocks);
	if (reader->unwritten_threads)
		printf("             the trails of %u threads are missing wholly\n",
		       reader->unwritten_threads);
}

static void print_losses(const struct trace_reader *reader, const struct summary *summary)
{
	const char *in_memory = reader->meta.in_memory ? reader->meta.in_memory : "";
	uint64_t printed = 0;

	int is_lossy = summary->streams_lossy || summary->discarded ||
		       summary->kernel.throttle_count || has_scaled(&summary->kernel);

	if (!is_lossy && reader->damages_ever)
		printf("Losses       none known, but %llu places could not be read\n",
		       (unsigned long long)reader->damages_ever);
	else if (!is_lossy && !is_open(reader) && !reader->write_error)
		printf("Losses       none\n");
	else if (!is_lossy && !reader->write_error)
		printf("Losses       %s\n", in_memory[0] ? "not known" : "none known");
	if (is_open(reader) && in_memory[0])
		printf("             the recorder was killed: its %s were in memory alone, and are missing\n",
		       shown(in_memory));
	if (is_open(reader) && strcmp(in_memory, "events"))
		printf("             the recorder was killed: its last 100 ms may be missing, and what was lost until then\n");
	if (!reader->is_indexed && !reader->live)
		printf("             the trace has no index (.index): packets may be missing\n");
	if (!is_lossy) {
		print_unwritten(reader, "Losses");
		return;
	}
	printf("Losses       %llu events %s (%.2f%% of all), %llu packets missing\n",
	       (unsigned long long)summary->discarded,
	       summary->is_cyclic && !reader->write_error ? "overwritten" : "discarded",
	       100.0 * (double)summary->discarded /
		       (double)(summary->discarded + summary->total + !summary->discarded),
	       (unsigned long long)summary->missing_packets);
	if (is_impossible(reader, summary))
		printf("             no machine produces so many events in this time: a process has changed its counts\n");
	for (uint32_t i = 0; i < reader->stream_count && printed < LOSSY_SHOWN_MAX; i++) {
		const struct trace_stream *stream = &reader->streams[i];

		if (!stream->discarded && !stream->missing_packets)
			continue;
		printf("             %s", shown(stream->comm));
		if (!stream->is_of_cpu)
			printf("-%u of %u", stream->tid, stream->pid);
		printf(": %llu events, %llu packets\n", (unsigned long long)stream->discarded,
		       (unsigned long long)stream->missing_packets);
		printed++;
	}
	if (printed < summary->streams_lossy)
		printf("             and %llu more streams\n",
		       (unsigned long long)(summary->streams_lossy - printed));
	print_unwritten(reader, "");
	print_pauses(&summary->kernel);
}

/* Of watches, and within what time hits of them may be missing. */
static void print_change(const struct fact_process *process, const struct fact_change *change,
			 uint64_t begin_ns, const char *head)
{
	double since_s = ((double)change->begin_ns - (double)begin_ns) / 1e9;
	char text[24];

	printf("%-12s %.6f s: %s became", head, since_s, shown(change->from));
	printf(" %s in %u", shown(change->to), process->pid);
	if (change->was_stopped)
		printf(", which stood still for %s\n", report_time((double)change->gap_ns, text));
	else
		printf("; within %s hits may be missing\n",
		       report_time((double)change->gap_ns, text));
}

static void print_changes(const struct facts *meta, uint64_t begin_ns)
{
	uint64_t printed = 0, all = 0;

	for (uint32_t i = 0; i < meta->process_count; i++)
		for (size_t j = 0; j < meta->processes[i].change_count; j++) {
			if (all++ >= CHANGES_SHOWN_MAX)
				continue;
			print_change(&meta->processes[i], &meta->processes[i].changes[j], begin_ns,
				     printed ? "" : "Changes");
			printed++;
		}
	if (printed < all)
		printf("             and %llu more\n", (unsigned long long)(all - printed));
}

/* From when to when hits of a probe are missing. */
static void print_one_foreign(const struct fact_process *process,
			      const struct fact_foreign *foreign, uint64_t begin_ns,
			      const char *head)
{
	double from_s = ((double)foreign->begin_ns - (double)begin_ns) / 1e9;

	printf("%-12s %.6f s to ", head, from_s);
	if (foreign->end_ns)
		printf("%.6f s: ", ((double)foreign->end_ns - (double)begin_ns) / 1e9);
	else
		printf("the end: ");
	printf("%s in %u, while another tool's breakpoint was there\n", shown(foreign->name),
	       process->pid);
}

static void print_foreign(const struct facts *meta, uint64_t begin_ns)
{
	uint64_t printed = 0, all = 0;

	for (uint32_t i = 0; i < meta->process_count; i++)
		for (size_t j = 0; j < meta->processes[i].foreign_count; j++) {
			if (all++ >= CHANGES_SHOWN_MAX)
				continue;
			print_one_foreign(&meta->processes[i], &meta->processes[i].foreign[j],
					  begin_ns, printed ? "" : "Missing");
			printed++;
		}
	if (printed < all)
		printf("             and %llu more\n", (unsigned long long)(all - printed));
}

static void print_unrecorded(const struct facts *meta)
{
	for (size_t i = 0; i < meta->unrecorded_count && i < CHANGES_SHOWN_MAX; i++) {
		const struct fact_unrecorded *one = &meta->unrecorded[i];

		printf("%-12s %llu of %s: ", i ? "" : "Unrecorded",
		       (unsigned long long)one->processes, shown(one->program ? one->program : ""));
		printf("%s\n", shown(one->reason ? one->reason : ""));
	}
	if (meta->unrecorded_count > CHANGES_SHOWN_MAX)
		printf("             and of %llu more programs\n",
		       (unsigned long long)(meta->unrecorded_count - CHANGES_SHOWN_MAX));
}

static void print_trails(const struct report_trails *trails)
{
	printf("Trails       %llu threads, %llu blocks\n", (unsigned long long)trails->threads,
	       (unsigned long long)trails->blocks);
	if (trails->places)
		printf("             blocks are missing at %llu places, %llu that are known of\n",
		       (unsigned long long)trails->places, (unsigned long long)trails->lost);
	if (trails->unrecorded)
		printf("             at %llu places what ran was not recorded\n",
		       (unsigned long long)trails->unrecorded);
	if (trails->cut)
		printf("             the recording of %llu threads was cut off\n",
		       (unsigned long long)trails->cut);
	if (trails->damaged)
		printf("             the trails of %llu threads are damaged or gone\n",
		       (unsigned long long)trails->damaged);
}

static void print_histogram(const struct summary_span *span)
{
	struct report_row rows[REPORT_ROWS_MAX];
	int count = report_rows(span, rows);
	uint64_t most = 1;

	for (int i = 0; i < count; i++)
		most = rows[i].count > most ? rows[i].count : most;
	for (int i = 0; i < count; i++) {
		int filled = (int)((double)rows[i].count * BAR_WIDTH / (double)most + 0.5);
		char low[24], high[24], bar[BAR_WIDTH + 1];

		if (!filled && rows[i].count)
			filled = 1;
		memset(bar, '#', sizeof(bar));
		bar[filled] = '\0';
		printf("  %8s - %-8s |%-*s| %llu\n", report_time((double)rows[i].low_ns, low),
		       report_time((double)rows[i].high_ns, high), BAR_WIDTH, bar,
		       (unsigned long long)rows[i].count);
	}
}

/* A count, with its unit where it has one. */
static const char *cost_text(const struct summary_cost *cost, double value, char text[24])
{
	if (*cost->unit)
		return report_time(value, text);
	snprintf(text, 24, value >= 100 || value == (double)(uint64_t)value ? "%.0f" : "%.2f",
		 value);
	return text;
}

static void print_cost(const struct summary_cost *cost)
{
	char sum[24], mean[24], max[24];

	/* what it says of the others is with them */
	if (cost->kind == COST_UNCOUNTED && !cost->sum)
		return;
	if (cost->spans)
		printf("  %s: %s in all, %s a span, %s at most\n", shown(cost->name),
		       cost_text(cost, (double)cost->sum, sum),
		       cost_text(cost, (double)cost->sum / (double)cost->spans, mean),
		       cost_text(cost, (double)cost->max, max));
	if (cost->unavailable)
		printf("  %s: not available for %llu spans\n", shown(cost->name),
		       (unsigned long long)cost->unavailable);
	if (cost->partial)
		printf("  %s: left out for %llu spans, counted in part: others had the counters\n",
		       shown(cost->name), (unsigned long long)cost->partial);
}

static void print_span(const struct summary_span *span, const struct switch_span *switched,
		       int width)
{
	const struct histogram *times = span->times;
	char min[24] = "-", median[24] = "-", p99[24] = "-", max[24] = "-";

	if (times->count) {
		report_time(report_ns(span, times->min), min);
		report_time(report_ns(span, histogram_quantile(times, 0.5)), median);
		report_time(report_ns(span, histogram_quantile(times, 0.99)), p99);
		report_time(report_ns(span, times->max), max);
	}
	printf("%-*s %13llu %9s %9s %9s %9s", width, shown(span->name),
	       (unsigned long long)times->count, min, median, p99, max);
	report_span_text(switched);
	putchar('\n');
	print_histogram(span);
	for (uint32_t i = 0; i < span->cost_count; i++)
		print_cost(&span->costs[i]);
	if (span->unfinished)
		printf("  %llu begun, with no end recorded\n",
		       (unsigned long long)span->unfinished);
	if (span->unbegun)
		printf("  %llu ended, with no begin recorded\n", (unsigned long long)span->unbegun);
}

static int has_hit(const struct summary_span *span)
{
	return span->times->count || span->unfinished || span->unbegun;
}

static void print_spans(const struct report *report, int width)
{
	const struct summary *summary = report->summary;
	uint32_t spans = 0;

	for (uint32_t i = 0; i < summary->span_count; i++)
		spans += has_hit(&summary->spans[i]);
	if (!spans)
		return;
	printf("\n%-*s %13s %9s %9s %9s %9s", width, "SPAN", "COUNT", "MIN", "MEDIAN", "P99",
	       "MAX");
	report_span_head(&report->threads);
	putchar('\n');
	for (uint32_t i = 0; i < summary->span_count; i++)
		if (has_hit(&summary->spans[i]))
			print_span(&summary->spans[i], report_threads_span(&report->threads, i),
				   width);
}

void report_text(const struct report *report)
{
	const struct trace_reader *reader = report->reader;
	const struct summary *summary = report->summary;
	const struct report_watches *watches = &report->watches;
	int width = name_width(summary);

	print_header(report->dir, reader, summary);
	if (summary->event_count)
		print_events(summary, width);
	print_losses(reader, summary);
	print_changes(&reader->meta, summary->begin_ns);
	print_foreign(&reader->meta, summary->begin_ns);
	print_unrecorded(&reader->meta);
	if (report->trails.threads)
		print_trails(&report->trails);
	for (size_t i = 0; i < watches->count; i++) {
		printf("%-12s ", i ? "" : "Watches");
		watch_counts_text(&watches->all[i].watched, watches->all[i].unproven,
				  "             ", stdout);
	}
	if (watches->writers && writers_hits(watches->writers)) {
		putchar('\n');
		writers_show(watches->writers, &(struct writers_view){ .rows = WRITERS_SHOWN_MAX },
			     stdout);
	}
	print_counts(&summary->kernel, width);
	report_threads_text(&report->threads);
	print_spans(report, width);
	report_samples_text(&report->samples);
}
