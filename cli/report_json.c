/* SPDX-License-Identifier: MIT */
#include "cli/report.h"

#include "cli/json.h"
#include "cli/watch_counts.h"

#include <string.h>
#include <unistd.h>

static void put_processes(struct json *json, const struct facts *meta)
{
	json_open(json, "processes", '[');
	for (uint32_t i = 0; i < meta->process_count; i++) {
		const struct fact_process *process = &meta->processes[i];

		json_open(json, NULL, '{');
		json_number(json, "pid", process->pid);
		json_number(json, "ppid", process->ppid);
		json_string(json, "exe", process->exe);
		json_string(json, "build_id", process->build_id);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void put_events(struct json *json, const struct summary *summary)
{
	json_open(json, "events", '[');
	for (uint32_t i = 0; i < summary->event_count; i++) {
		const struct summary_event *event = &summary->events[i];

		json_open(json, NULL, '{');
		json_string(json, "name", event->name);
		json_number(json, "count", event->count);
		json_decimal(json, "per_second", event->per_second, 1);
		json_number(json, "threads", event->threads);
		json_number(json, "processes", event->processes);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void put_counts(struct json *json, const struct kernel_sums *sums)
{
	json_open(json, "counts", '[');
	for (size_t i = 0; i < sums->count; i++) {
		const struct kernel_count *count = &sums->counts[i];
		double value = kernel_count_scaled(count);

		json_open(json, NULL, '{');
		json_string(json, "name", count->name);
		if (count->pid)
			json_number(json, "pid", count->pid);
		else
			json_null(json, "pid");
		if (value < 0)
			json_null(json, "count");
		else if (kernel_count_is_scaled(count))
			json_decimal(json, "count", value, 0);
		else
			json_number(json, "count", count->count);
		json_words(json, "unit", count->is_time ? "ns" : NULL);
		json_number(json, "enabled_ns", count->enabled_ns);
		json_number(json, "running_ns", count->running_ns);
		json_bool(json, "scaled", kernel_count_is_scaled(count));
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void put_throttled(struct json *json, const struct kernel_sums *sums)
{
	json_open(json, "throttled", '[');
	for (size_t i = 0; i < sums->throttle_count; i++) {
		json_open(json, NULL, '{');
		json_string(json, "name", sums->throttles[i].event);
		json_number(json, "times", sums->throttles[i].times);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void put_ns(struct json *json, const struct summary_span *span, const char *key,
		   uint64_t ticks)
{
	json_number(json, key, (uint64_t)(report_ns(span, ticks) + 0.5));
}

static void put_cost(struct json *json, const struct summary_cost *cost)
{
	json_open(json, NULL, '{');
	json_string(json, "name", cost->name);
	json_string(json, "unit", cost->unit);
	json_number(json, "spans", cost->spans);
	json_number(json, "sum", cost->sum);
	json_number(json, "max", cost->max);
	json_number(json, "unavailable", cost->unavailable);
	json_number(json, "partial", cost->partial);
	json_close(json, '}');
}

static void put_span(struct json *json, const struct summary_span *span,
		     const struct switch_span *switched)
{
	struct report_row rows[REPORT_ROWS_MAX];
	int count = report_rows(span, rows);

	json_open(json, NULL, '{');
	json_string(json, "name", span->name);
	json_number(json, "count", span->times->count);
	if (span->times->count) {
		put_ns(json, span, "min_ns", span->times->min);
		put_ns(json, span, "median_ns", histogram_quantile(span->times, 0.5));
		put_ns(json, span, "p99_ns", histogram_quantile(span->times, 0.99));
		put_ns(json, span, "max_ns", span->times->max);
	}
	json_number(json, "unfinished", span->unfinished);
	json_number(json, "unbegun", span->unbegun);
	if (switched) {
		json_number(json, "switched", switched->count);
		report_times_json(switched->ns, json);
	}
	json_open(json, "counts", '[');
	for (uint32_t i = 0; i < span->cost_count; i++)
		put_cost(json, &span->costs[i]);
	json_close(json, ']');
	json_open(json, "histogram", '[');
	for (int i = 0; i < count; i++) {
		json_open(json, NULL, '{');
		json_number(json, "from_ns", rows[i].low_ns);
		json_number(json, "to_ns", rows[i].high_ns);
		json_number(json, "count", rows[i].count);
		json_close(json, '}');
	}
	json_close(json, ']');
	json_close(json, '}');
}

static void put_spans(struct json *json, const struct report *report)
{
	json_open(json, "spans", '[');
	for (uint32_t i = 0; i < report->summary->span_count; i++)
		put_span(json, &report->summary->spans[i],
			 report_threads_span(&report->threads, i));
	json_close(json, ']');
}

static void put_trails(struct json *json, const struct report_trails *trails)
{
	json_open(json, "trails", '{');
	json_number(json, "threads", trails->threads);
	json_number(json, "blocks", trails->blocks);
	json_number(json, "lost_places", trails->places);
	json_number(json, "lost_blocks", trails->lost);
	json_number(json, "unrecorded_places", trails->unrecorded);
	json_number(json, "cut_threads", trails->cut);
	json_number(json, "damaged_threads", trails->damaged);
	json_close(json, '}');
}

static void put_changes(struct json *json, const struct facts *meta)
{
	json_open(json, "changes", '[');
	for (uint32_t i = 0; i < meta->process_count; i++)
		for (size_t j = 0; j < meta->processes[i].change_count; j++) {
			const struct fact_change *change = &meta->processes[i].changes[j];

			json_open(json, NULL, '{');
			json_number(json, "pid", meta->processes[i].pid);
			json_string(json, "from", change->from);
			json_string(json, "to", change->to);
			json_number(json, "begin_ns", change->begin_ns);
			json_number(json, "gap_ns", change->gap_ns);
			json_bool(json, "stopped", change->was_stopped);
			json_close(json, '}');
		}
	json_close(json, ']');
}

static void put_foreign(struct json *json, const struct facts *meta)
{
	json_open(json, "held", '[');
	for (uint32_t i = 0; i < meta->process_count; i++)
		for (size_t j = 0; j < meta->processes[i].foreign_count; j++) {
			const struct fact_foreign *foreign = &meta->processes[i].foreign[j];

			json_open(json, NULL, '{');
			json_number(json, "pid", meta->processes[i].pid);
			json_string(json, "name", foreign->name);
			json_number(json, "begin_ns", foreign->begin_ns);
			if (foreign->end_ns)
				json_number(json, "end_ns", foreign->end_ns);
			else
				json_null(json, "end_ns");
			json_close(json, '}');
		}
	json_close(json, ']');
}

static void put_unrecorded(struct json *json, const struct facts *meta)
{
	json_open(json, "unrecorded", '[');
	for (size_t i = 0; i < meta->unrecorded_count; i++) {
		const struct fact_unrecorded *one = &meta->unrecorded[i];

		json_open(json, NULL, '{');
		json_string(json, "program", one->program ? one->program : "");
		json_number(json, "processes", one->processes);
		json_string(json, "reason", one->reason ? one->reason : "");
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void put_watches(struct json *json, const struct report_watches *watches)
{
	struct rows rows = { .out = json->out, .format = ROWS_JSON, .follows = json->follows };

	rows_open(&rows, &watch_table, NULL);
	for (size_t i = 0; i < watches->count; i++)
		watch_row(&rows, &watches->all[i].watched, watches->all[i].unproven);
	rows_close(&rows);
	json->follows = 1;
}

static void put_damage(struct json *json, const struct trace_reader *reader)
{
	json_open(json, "damage", '[');
	for (uint32_t i = 0; i < reader->damage_count; i++) {
		const struct trace_damage *damage = &reader->damages[i];

		json_open(json, NULL, '{');
		json_string(json, "file", damage->file);
		json_number(json, "offset", damage->offset);
		json_number(json, "bytes", damage->bytes);
		json_string(json, "what", damage->what);
		json_close(json, '}');
	}
	json_close(json, ']');
}

int report_json(const struct report *report)
{
	const struct trace_reader *reader = report->reader;
	const struct summary *summary = report->summary;
	static struct out out;
	struct json json = { &out, 0 };

	out_init(&out, STDOUT_FILENO);
	json_open(&json, NULL, '{');
	json_string(&json, "trace", report->dir);
	json_string(&json, "host", reader->meta.hostname);
	json_bool(&json, "live", reader->live);
	json_number(&json, "begin_ns", summary->begin_ns);
	json_number(&json, "end_ns", summary->end_ns);
	if (reader->length_ns)
		json_number(&json, "length_ns", reader->length_ns);
	else
		json_null(&json, "length_ns");
	json_number(&json, "bytes", reader->bytes);
	json_number(&json, "streams", reader->stream_count);
	json_number(&json, "threads", summary->threads);
	put_processes(&json, &reader->meta);
	json_number(&json, "recorded", summary->total);
	json_number(&json, "discarded", summary->discarded);
	json_number(&json, "missing_packets", summary->missing_packets);
	if (reader->is_indexed)
		json_bool(&json, "ended", reader->is_ended);
	else
		json_null(&json, "ended");
	json_words(&json, "in_memory", reader->meta.in_memory);
	json_words(&json, "write_error", reader->write_error ? strerror(reader->write_error) : "");
	json_number(&json, "unwritten_blocks", reader->unwritten_blocks);
	json_number(&json, "unwritten_threads", reader->unwritten_threads);
	put_events(&json, summary);
	put_counts(&json, &summary->kernel);
	put_throttled(&json, &summary->kernel);
	put_spans(&json, report);
	report_threads_json(&report->threads, &json);
	if (report->trails.threads)
		put_trails(&json, &report->trails);
	put_watches(&json, &report->watches);
	if (report->watches.writers)
		writers_json(report->watches.writers, &json);
	if (report->samples.tables)
		report_samples_json(&report->samples, &json);
	put_changes(&json, &reader->meta);
	put_foreign(&json, &reader->meta);
	put_unrecorded(&json, &reader->meta);
	put_damage(&json, reader);
	json_close(&json, '}');
	out_char(&out, '\n');
	return out_flush(&out);
}
