/* SPDX-License-Identifier: MIT */
#include "cli/report.h"

#include "base/name_match.h"
#include "cli/trail_view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_SHOWN 20 /* of a table without an option for it */

/* ---- the trace ---- */

static const struct row_column trace_columns[] = {
	{ "trace", ROW_TEXT, ROW_PLAIN, 0, "the folder" },
	{ "host", ROW_TEXT, ROW_PLAIN, 0, "the machine that recorded it" },
	{ "live", ROW_BOOL, ROW_PLAIN, ROW_DETAIL, "it is still being written" },
	{ "begin", ROW_U64, ROW_TIME, 0, "of the first packet; null: no packet" },
	{ "end", ROW_U64, ROW_TIME, ROW_DETAIL, "of the last packet; likewise" },
	{ "duration", ROW_U64, ROW_NS, 0, "between the two" },
	{ "length", ROW_U64, ROW_NS, 0,
	  "how long the recording took; null where its recorder was killed" },
	{ "size", ROW_U64, ROW_BYTES, 0, "of its files" },
	{ "streams", ROW_U64, ROW_COUNT, 0, "of packets" },
	{ "threads", ROW_U64, ROW_COUNT, 0, "that recorded an event, or that one is about" },
	{ "recorded", ROW_U64, ROW_COUNT, 0, "events" },
	{ "discarded", ROW_U64, ROW_COUNT, ROW_DETAIL, "events that were lost" },
	{ "missing_packets", ROW_U64, ROW_COUNT, ROW_DETAIL, "that should be there" },
	{ "ended", ROW_BOOL, ROW_PLAIN, ROW_DETAIL,
	  "false where its recorder was killed or had no room for the end; null without an index" },
	{ "in_memory", ROW_TEXT, ROW_PLAIN, ROW_DETAIL,
	  "events or branches that were in memory alone until the recording ended" },
	{ "write_error", ROW_TEXT, ROW_PLAIN, ROW_DETAIL,
	  "why the recorder could not write all; null where it could" },
	{ "unwritten_blocks", ROW_U64, ROW_COUNT, ROW_DETAIL, "of trails, for that" },
	{ "unwritten_threads", ROW_U64, ROW_COUNT, ROW_DETAIL, "whose trails are missing wholly" },
};
static ROW_TABLE(report_trace_table, "trace", "The trace as a whole: members of the object itself.",
		 trace_columns);

static void trace_record(struct rows *rows, const struct report *report)
{
	const struct trace_reader *reader = report->reader;
	const struct summary *summary = report->summary;
	const struct row_value row[] = {
		row_text(report->dir),
		row_text(reader->meta.hostname),
		row_bool(reader->live),
		summary->begin_ns ? row_u64(summary->begin_ns) : row_null(),
		summary->begin_ns ? row_u64(summary->end_ns) : row_null(),
		row_u64(summary->end_ns - summary->begin_ns),
		row_known(reader->length_ns),
		row_u64(reader->bytes),
		row_u64(reader->stream_count),
		row_u64(summary->threads),
		row_u64(summary->total),
		row_u64(summary->discarded),
		row_u64(summary->missing_packets),
		reader->is_indexed ? row_bool(reader->is_ended) : row_null(),
		row_words(reader->meta.in_memory),
		row_text(reader->write_error ? strerror(reader->write_error) : NULL),
		row_u64(reader->unwritten_blocks),
		row_u64(reader->unwritten_threads),
	};

	rows_record(rows, &report_trace_table, row);
	if (reader->live)
		rows_note(rows, "%-12s still being written; this is what there is so far", "State");
}

static const struct row_column process_columns[] = {
	{ "pid", ROW_U64, ROW_PLAIN, 0, "0: the kernel" },
	{ "ppid", ROW_U64, ROW_PLAIN, 0, "its parent" },
	{ "exe", ROW_TEXT, ROW_PLAIN, 0, "the program's file" },
	{ "build_id", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "of the file" },
};
static ROW_TABLE(report_process_table, "process", "The processes that were recorded.",
		 process_columns);

static void process_rows(struct rows *rows, const struct facts *meta)
{
	rows_open(rows, &report_process_table,
		  &(struct rows_layout){ .shown = ROWS_SHOWN, .none = "Processes    none" });
	for (uint32_t i = 0; i < meta->process_count; i++) {
		const struct fact_process *process = &meta->processes[i];

		if (!process->declared)
			continue;
		ROWS_PUT(rows, process_columns, row_u64(process->pid), row_u64(process->ppid),
			 row_text(process->exe), row_text(process->build_id));
	}
	rows_close(rows);
}

/* ---- events and counts ---- */

static const struct row_column event_columns[] = {
	{ "name", ROW_TEXT, ROW_PLAIN, 0, "SUBSYSTEM:EVENT, of a marker or a probe" },
	{ "count", ROW_U64, ROW_COUNT, 0, "how often it was recorded" },
	{ "per_second", ROW_DOUBLE, ROW_PLAIN, 0,
	  "over the whole recording; of a flight recorder over the time that the kept events "
	  "cover" },
	{ "share", ROW_DOUBLE, ROW_SHARE, 0, "of all events" },
	{ "threads", ROW_U64, ROW_COUNT, 0, "that recorded it, or that it is about" },
	{ "processes", ROW_U64, ROW_COUNT, ROW_DETAIL, "likewise" },
};
static ROW_TABLE(report_event_table, "event", "How often each event was recorded.", event_columns);

/* Of a flight recorder, events of a busy thread cover less time than others: compare rates. */
static double weight_of(const struct summary *summary, const struct summary_event *event)
{
	return summary->is_cyclic ? event->per_second : (double)event->count;
}

/* Events without a hit are the last ones: text leaves them out. */
static void event_rows(struct rows *rows, const struct summary *summary)
{
	double all = 0;
	uint32_t hit = 0;

	for (uint32_t i = 0; i < summary->event_count; i++) {
		all += weight_of(summary, &summary->events[i]);
		hit += summary->events[i].count != 0;
	}
	rows_open(rows, &report_event_table,
		  &(struct rows_layout){ .more = "without a hit; --json lists all" });
	if (rows->format == ROWS_TEXT)
		rows_skip(rows, summary->event_count - hit);
	for (uint32_t i = 0; i < summary->event_count; i++) {
		const struct summary_event *event = &summary->events[i];

		if (rows->format == ROWS_TEXT && i >= hit)
			continue;
		ROWS_PUT(rows, event_columns, row_text(event->name), row_u64(event->count),
			 row_double(event->per_second),
			 row_double(all > 0 ? 100 * weight_of(summary, event) / all : 0),
			 row_u64(event->threads), row_u64(event->processes));
	}
	rows_close(rows);
}

static const struct row_column count_columns[] = {
	{ "name", ROW_TEXT, ROW_PLAIN, 0, "of count:NAME" },
	{ "count", ROW_DOUBLE, ROW_PLAIN, 0,
	  "what it came to, scaled; null where it never counted" },
	{ "unit", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "ns or null" },
	{ "pid", ROW_U64, ROW_PLAIN, 0,
	  "the process with those that it started; null: several, or CPUs" },
	{ "enabled", ROW_U64, ROW_NS, ROW_DETAIL, "it was to count" },
	{ "running", ROW_U64, ROW_NS, ROW_DETAIL, "it had a counter" },
	{ "counted", ROW_DOUBLE, ROW_SHARE, ROW_FOR_TEXT, "in how much of the time it counted" },
	{ "scaled", ROW_BOOL, ROW_PLAIN, ROW_DETAIL, "counters took turns" },
};
static ROW_TABLE(report_count_table, "count", "What count:NAME of kernel events came to.",
		 count_columns);

static struct row_value count_value(const struct kernel_count *count)
{
	double value = summary_count_scaled(count);
	struct row_value row = summary_count_is_scaled(count)
				       ? row_u64(value < 0 ? 0 : (uint64_t)(value + 0.5))
				       : row_u64(count->count);

	return value < 0 ? row_null() : row_in(row, count->is_time ? ROW_NS : ROW_COUNT);
}

static void count_rows(struct rows *rows, const struct kernel_sums *sums)
{
	rows_open(rows, &report_count_table, NULL);
	for (size_t i = 0; i < sums->count; i++) {
		const struct kernel_count *count = &sums->counts[i];
		double part = summary_count_is_scaled(count)
				      ? (double)count->running_ns / (double)count->enabled_ns
				      : 1;

		ROWS_PUT(rows, count_columns, row_text(count->name), count_value(count),
			 row_text(count->is_time ? "ns" : NULL), row_known(count->pid),
			 row_u64(count->enabled_ns), row_u64(count->running_ns),
			 row_double(100 * part), row_bool(summary_count_is_scaled(count)));
	}
	rows_close(rows);
}

/* ---- what is missing ---- */

/* Its writer has not closed it and is gone: it was killed. */
static int is_open(const struct trace_reader *reader)
{
	return reader->is_indexed && !reader->is_ended && !reader->write_error && !reader->live;
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
		if (summary_count_is_scaled(&sums->counts[i]))
			return 1;
	return 0;
}

/* The recorder could not write, from some time on. */
static void note_unwritten(struct rows *rows, const struct trace_reader *reader)
{
	if (!reader->write_error)
		return;
	rows_note(rows,
		  "Losses       not all could be written: %s; names of unrecorded programs may be "
		  "missing too",
		  strerror(reader->write_error));
	if (reader->unwritten_blocks)
		rows_note(rows, "             %llu blocks of trails were not written",
			  (unsigned long long)reader->unwritten_blocks);
	if (reader->unwritten_threads)
		rows_note(rows, "             the trails of %u threads are missing wholly",
			  reader->unwritten_threads);
}

static void note_lossless(struct rows *rows, const struct trace_reader *reader)
{
	const char *in_memory = reader->meta.in_memory ? reader->meta.in_memory : "";

	if (reader->damages_ever)
		rows_note(rows, "Losses       none known, but %llu places could not be read",
			  (unsigned long long)reader->damages_ever);
	else if (!reader->write_error)
		rows_note(rows, "Losses       %s",
			  !is_open(reader) ? "none"
			  : in_memory[0]   ? "not known"
					   : "none known");
}

static void note_losses(struct rows *rows, const struct trace_reader *reader,
			const struct summary *summary)
{
	const char *in_memory = reader->meta.in_memory ? reader->meta.in_memory : "";

	if (!summary->streams_lossy && !summary->discarded && !summary->kernel.throttle_count &&
	    !has_scaled(&summary->kernel))
		note_lossless(rows, reader);
	else
		rows_note(
			rows, "Losses       %llu events %s (%.2f%% of all), %llu packets missing",
			(unsigned long long)summary->discarded,
			summary->is_cyclic && !reader->write_error ? "overwritten" : "discarded",
			100.0 * (double)summary->discarded /
				(double)(summary->discarded + summary->total + !summary->discarded),
			(unsigned long long)summary->missing_packets);
	if (is_open(reader) && in_memory[0])
		rows_note(rows,
			  "             the recorder was killed: its %s were in memory alone, and "
			  "are missing",
			  in_memory);
	if (is_open(reader) && strcmp(in_memory, "events"))
		rows_note(
			rows,
			"             the recorder was killed: its last 100 ms may be missing, and "
			"what was lost until then");
	if (!reader->is_indexed && !reader->live)
		rows_note(rows,
			  "             the trace has no index (.index): packets may be missing");
	if (is_impossible(reader, summary))
		rows_note(rows, "             no machine produces so many events in this time: "
				"a process has changed its counts");
	note_unwritten(rows, reader);
	for (size_t i = 0; i < summary->kernel.count; i++)
		if (summary_count_is_scaled(&summary->kernel.counts[i]))
			rows_note(rows, "             %s: counters took turns; its count is scaled",
				  summary->kernel.counts[i].name);
}

static const struct row_column loss_columns[] = {
	{ "stream", ROW_TEXT, ROW_PLAIN, 0, "the name of its thread, or its CPU" },
	{ "pid", ROW_U64, ROW_PLAIN, 0, "null of a CPU" },
	{ "tid", ROW_U64, ROW_PLAIN, 0, "likewise" },
	{ "events", ROW_U64, ROW_COUNT, 0, "that were lost" },
	{ "packets", ROW_U64, ROW_COUNT, 0, "that are missing" },
};
static ROW_TABLE(report_loss_table, "loss", "What each stream lost.", loss_columns);

static void loss_rows(struct rows *rows, const struct trace_reader *reader)
{
	rows_open(rows, &report_loss_table, &(struct rows_layout){ .shown = ROWS_SHOWN });
	for (uint32_t i = 0; i < reader->stream_count; i++) {
		const struct trace_stream *stream = &reader->streams[i];
		int is_of_cpu = stream->is_of_cpu;

		if (stream->discarded || stream->missing_packets)
			ROWS_PUT(rows, loss_columns, row_text(stream->comm),
				 is_of_cpu ? row_null() : row_u64(stream->pid),
				 is_of_cpu ? row_null() : row_u64(stream->tid),
				 row_u64(stream->discarded), row_u64(stream->missing_packets));
	}
	rows_close(rows);
}

static const struct row_column throttle_columns[] = {
	{ "name", ROW_TEXT, ROW_PLAIN, 0, "the event" },
	{ "times", ROW_U64, ROW_COUNT, 0, "that the kernel stopped it, as it came too often" },
};
static ROW_TABLE(report_throttle_table, "throttled", "Events that the kernel stopped for a while.",
		 throttle_columns);

static void throttle_rows(struct rows *rows, const struct kernel_sums *sums)
{
	rows_open(rows, &report_throttle_table, &(struct rows_layout){ .shown = ROWS_SHOWN });
	for (size_t i = 0; i < sums->throttle_count; i++)
		ROWS_PUT(rows, throttle_columns, row_text(sums->throttles[i].event),
			 row_u64(sums->throttles[i].times));
	rows_close(rows);
}

static const struct row_column change_columns[] = {
	{ "begin", ROW_U64, ROW_TIME, 0, "when" },
	{ "gap", ROW_U64, ROW_NS, 0, "within which a process had either" },
	{ "removed", ROW_TEXT, ROW_PLAIN, 0, "the spec that was removed" },
	{ "added", ROW_TEXT, ROW_PLAIN, 0, "the spec that was added" },
};
static ROW_TABLE(report_change_table, "change", "Specs that came or went during the recording.",
		 change_columns);

static void change_rows(struct rows *rows, const struct facts *meta)
{
	rows_open(rows, &report_change_table,
		  &(struct rows_layout){ .title = "Changes", .shown = ROWS_SHOWN });
	for (uint32_t i = 0; i < meta->process_count; i++)
		for (size_t j = 0; j < meta->processes[i].change_count; j++) {
			const struct fact_change *change = &meta->processes[i].changes[j];

			ROWS_PUT(rows, change_columns, row_u64(change->begin_ns),
				 row_u64(change->gap_ns), row_text(change->from),
				 row_text(change->to));
		}
	rows_close(rows);
}

static const struct row_column gap_columns[] = {
	{ "pid", ROW_U64, ROW_PLAIN, 0, "the process" },
	{ "name", ROW_TEXT, ROW_PLAIN, 0, "the event; or the module, for all of its places" },
	{ "begin", ROW_U64, ROW_TIME, 0, "from when on" },
	{ "end", ROW_U64, ROW_TIME, 0, "until when; null: to the end" },
	{ "length", ROW_U64, ROW_NS, 0, "how long that was; null: to the end" },
	{ "cause", ROW_TEXT, ROW_PLAIN, 0,
	  "overwritten, as by another tool's breakpoint; loaded late" },
};
static ROW_TABLE(report_gap_table, "gap", "When hits of probes are missing.", gap_columns);

static void gap_rows(struct rows *rows, const struct facts *meta)
{
	rows_open(rows, &report_gap_table,
		  &(struct rows_layout){ .title = "Missing: hits of probes in these times",
					 .shown = ROWS_SHOWN });
	for (uint32_t i = 0; i < meta->process_count; i++)
		for (size_t j = 0; j < meta->processes[i].gap_count; j++) {
			const struct fact_gap *gap = &meta->processes[i].gaps[j];

			ROWS_PUT(rows, gap_columns, row_u64(meta->processes[i].pid),
				 row_text(gap->name), row_u64(gap->begin_ns),
				 row_known(gap->end_ns),
				 gap->end_ns ? row_u64(gap->end_ns - gap->begin_ns) : row_null(),
				 row_text(gap->cause));
		}
	rows_close(rows);
}

static const struct row_column unrecorded_columns[] = {
	{ "program", ROW_TEXT, ROW_PLAIN, 0, "its file" },
	{ "processes", ROW_U64, ROW_COUNT, 0, "that ran it" },
	{ "reason", ROW_TEXT, ROW_PLAIN, 0, "why it was not recorded" },
};
static ROW_TABLE(report_unrecorded_table, "unrecorded", "Programs that ran unrecorded.",
		 unrecorded_columns);

static void unrecorded_rows(struct rows *rows, const struct facts *meta)
{
	rows_open(rows, &report_unrecorded_table,
		  &(struct rows_layout){ .title = "Unrecorded", .shown = ROWS_SHOWN });
	for (size_t i = 0; i < meta->unrecorded_count; i++) {
		const struct fact_unrecorded *one = &meta->unrecorded[i];

		ROWS_PUT(rows, unrecorded_columns, row_text(one->program ? one->program : ""),
			 row_u64(one->processes), row_text(one->reason ? one->reason : ""));
	}
	rows_close(rows);
}

static const struct row_column damage_columns[] = {
	{ "file", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "of the trace" },
	{ "offset", ROW_U64, ROW_PLAIN, ROW_DETAIL, "in the file" },
	{ "bytes", ROW_U64, ROW_BYTES, ROW_DETAIL, "that were left out" },
	{ "what", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "is wrong there" },
};
static ROW_TABLE(report_damage_table, "damage",
		 "What could not be read. Text has it on standard error.", damage_columns);

static void damage_rows(struct rows *rows, const struct trace_reader *reader)
{
	rows_open(rows, &report_damage_table, NULL);
	for (uint32_t i = 0; i < reader->damage_count; i++) {
		const struct trace_damage *damage = &reader->damages[i];

		ROWS_PUT(rows, damage_columns, row_text(damage->file), row_u64(damage->offset),
			 row_u64(damage->bytes), row_text(damage->what));
	}
	rows_close(rows);
}

/* ---- trails ---- */

static void trail_add(struct report_trails *sum, const struct trace_reader *reader,
		      const struct trail_path *path)
{
	static const struct trail_bound none;
	struct trail_range range;
	struct trail_lost lost;

	trail_range_init(&range, reader, path, &none, &none);
	trail_lost_count(&lost, reader, &range);
	sum->threads++;
	sum->blocks += path->blocks;
	sum->places += lost.places;
	sum->lost += lost.blocks;
	sum->unrecorded += lost.unrecorded;
	sum->cut += (uint64_t)lost.is_cut;
	sum->damaged += path->damage != NULL;
}

int report_trails(struct report_trails *sum, struct trace_reader *reader)
{
	struct trails trails;
	int err = trails_read(&trails, reader);

	*sum = (struct report_trails){ 0 };
	for (size_t i = 0; i < trails.path_count && !err; i++)
		trail_add(sum, reader, &trails.paths[i]);
	for (size_t i = 0; i < trails.threads.count && !err; i++) {
		const struct trail_thread_entry *threads = &trails.threads.all[i];
		int is_gone = trail_lost_is_gone(reader, threads);

		/* the recorder has counted these itself, as unwritten */
		if (reader->write_error && is_gone)
			continue;
		sum->threads += threads->is_missing != 0;
		sum->cut += (uint64_t)is_gone;
		sum->damaged += threads->is_missing && !is_gone && !reader->live;
	}
	trails_release(&trails, reader);
	return err;
}

static const struct row_column trail_columns[] = {
	{ "threads", ROW_U64, ROW_COUNT, 0, "that have a trail, or had one" },
	{ "blocks", ROW_U64, ROW_COUNT, 0, "that ran, as far as they are there" },
	{ "lost_places", ROW_U64, ROW_COUNT, ROW_QUIET, "where blocks are missing" },
	{ "lost_blocks", ROW_U64, ROW_COUNT, ROW_QUIET, "how many, that are known of" },
	{ "unrecorded_places", ROW_U64, ROW_COUNT, ROW_QUIET, "where code ran unrecorded" },
	{ "cut_threads", ROW_U64, ROW_COUNT, ROW_QUIET, "whose recording was cut off" },
	{ "damaged_threads", ROW_U64, ROW_COUNT, ROW_QUIET, "whose trail is damaged, or gone" },
};
static ROW_TABLE(report_trail_table, "trail", "The trails of all threads together.", trail_columns);

static void trail_rows(const struct report_trails *sum, struct rows *rows)
{
	if (!sum->threads)
		return;
	rows_open(rows, &report_trail_table, &(struct rows_layout){ .title = "Trails" });
	ROWS_PUT(rows, trail_columns, row_u64(sum->threads), row_u64(sum->blocks),
		 row_u64(sum->places), row_u64(sum->lost), row_u64(sum->unrecorded),
		 row_u64(sum->cut), row_u64(sum->damaged));
	rows_close(rows);
}

/* ---- all ---- */

void report_print(const struct report *report, struct rows *rows)
{
	const struct trace_reader *reader = report->reader;
	const struct summary *summary = report->summary;
	const struct facts *meta = &reader->meta;

	trace_record(rows, report);
	process_rows(rows, meta);
	event_rows(rows, summary);
	note_losses(rows, reader, summary);
	loss_rows(rows, reader);
	throttle_rows(rows, &summary->kernel);
	change_rows(rows, meta);
	gap_rows(rows, meta);
	unrecorded_rows(rows, meta);
	trail_rows(&report->trails, rows);
	report_watches_print(&report->watches, rows);
	count_rows(rows, &summary->kernel);
	report_threads_print(rows, report);
	if (rows->format != ROWS_TEXT)
		report_wait_calls_print(rows, report, NULL);
	report_spans_print(rows, report);
	report_samples_print(&report->samples, rows);
	damage_rows(rows, reader);
}
