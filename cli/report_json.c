/* SPDX-License-Identifier: MIT */
#include "cli/report.h"

#include "trace/out.h"

#include <stdio.h>
#include <unistd.h>

static void put_string(struct out *out, const char *key, const char *value)
{
	out_char(out, '"');
	out_text(out, key, strlen(key));
	out_literal(out, "\":\"");
	out_json(out, value ? value : "", value ? strlen(value) : 0);
	out_char(out, '"');
}

static void put_number(struct out *out, const char *key, uint64_t value)
{
	out_char(out, '"');
	out_text(out, key, strlen(key));
	out_literal(out, "\":");
	out_u64(out, value);
}

static void put_next(struct out *out, const char *key, uint64_t value)
{
	out_char(out, ',');
	put_number(out, key, value);
}

static void put_processes(struct out *out, const struct tsdl *meta)
{
	out_literal(out, ",\"processes\":[");
	for (uint32_t i = 0; i < meta->process_count; i++) {
		const struct tsdl_process *process = &meta->processes[i];

		out_text(out, i ? ",{" : "{", i ? 2 : 1);
		put_number(out, "pid", process->pid);
		put_next(out, "ppid", process->ppid);
		out_char(out, ',');
		put_string(out, "exe", process->exe);
		out_char(out, ',');
		put_string(out, "build_id", process->build_id);
		out_char(out, '}');
	}
	out_char(out, ']');
}

static void put_events(struct out *out, const struct summary *summary)
{
	out_literal(out, ",\"events\":[");
	for (uint32_t i = 0; i < summary->event_count; i++) {
		const struct summary_event *event = &summary->events[i];

		out_text(out, i ? ",{" : "{", i ? 2 : 1);
		put_string(out, "name", event->name);
		put_next(out, "count", event->count);
		put_next(out, "threads", event->threads);
		put_next(out, "processes", event->processes);
		out_char(out, '}');
	}
	out_char(out, ']');
}

static void put_ns(struct out *out, const struct summary_span *span, const char *key,
		   uint64_t ticks)
{
	put_next(out, key, (uint64_t)(report_ns(span, ticks) + 0.5));
}

static void put_span(struct out *out, const struct summary_span *span)
{
	struct report_row rows[REPORT_ROWS_MAX];
	int count = report_rows(span, rows);

	put_string(out, "name", span->name);
	put_next(out, "count", span->times->count);
	if (span->times->count) {
		put_ns(out, span, "min_ns", span->times->min);
		put_ns(out, span, "median_ns", histogram_quantile(span->times, 0.5));
		put_ns(out, span, "p99_ns", histogram_quantile(span->times, 0.99));
		put_ns(out, span, "max_ns", span->times->max);
	}
	put_next(out, "unfinished", span->unfinished);
	put_next(out, "unbegun", span->unbegun);
	out_literal(out, ",\"histogram\":[");
	for (int i = 0; i < count; i++) {
		out_text(out, i ? ",{" : "{", i ? 2 : 1);
		put_number(out, "from_ns", rows[i].low_ns);
		put_next(out, "to_ns", rows[i].high_ns);
		put_next(out, "count", rows[i].count);
		out_char(out, '}');
	}
	out_char(out, ']');
}

static void put_damage(struct out *out, const struct trace_reader *reader)
{
	out_literal(out, ",\"damage\":[");
	for (uint32_t i = 0; i < reader->damage_count; i++) {
		const struct trace_damage *damage = &reader->damages[i];

		out_text(out, i ? ",{" : "{", i ? 2 : 1);
		put_string(out, "file", damage->file);
		put_next(out, "offset", damage->offset);
		put_next(out, "bytes", damage->bytes);
		out_char(out, ',');
		put_string(out, "what", damage->what);
		out_char(out, '}');
	}
	out_char(out, ']');
}

int report_json(const char *dir, const struct trace_reader *reader, const struct summary *summary)
{
	static struct out out;

	out_init(&out, STDOUT_FILENO);
	out_char(&out, '{');
	put_string(&out, "trace", dir);
	out_char(&out, ',');
	put_string(&out, "host", reader->meta.hostname);
	out_text(&out, reader->live ? ",\"live\":true" : ",\"live\":false", reader->live ? 12 : 13);
	put_next(&out, "begin_ns", summary->begin_ns);
	put_next(&out, "end_ns", summary->end_ns);
	put_next(&out, "bytes", reader->bytes);
	put_next(&out, "streams", reader->stream_count);
	put_next(&out, "threads", summary->threads);
	put_processes(&out, &reader->meta);
	put_next(&out, "recorded", summary->total);
	put_next(&out, "discarded", summary->discarded);
	put_next(&out, "missing_packets", summary->missing_packets);
	put_events(&out, summary);
	out_literal(&out, ",\"spans\":[");
	for (uint32_t i = 0; i < summary->span_count; i++) {
		out_text(&out, i ? ",{" : "{", i ? 2 : 1);
		put_span(&out, &summary->spans[i]);
		out_char(&out, '}');
	}
	out_char(&out, ']');
	put_damage(&out, reader);
	out_literal(&out, "}\n");
	return out_flush(&out);
}
