/* SPDX-License-Identifier: MIT */
#include "trace/process_records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *life_name(enum life_kind kind)
{
	return kind == LIFE_START  ? "waymark:start"
	       : kind == LIFE_FORK ? "waymark:fork"
	       : kind == LIFE_EXEC ? "waymark:exec"
				   : "waymark:end";
}

void process_life_event(struct wm_event *event, struct wm_event_field fields[LIFE_FIELDS],
			enum life_kind kind, const struct fact_process *process,
			uint64_t realtime_ns, struct number_list *numbers)
{
	const char *program = process->exe ? process->exe : "";

	fields[0] = (struct wm_event_field){ .name = "ppid",
					     .type = WM_TYPE_U32,
					     .value.u = process->ppid };
	fields[1] = (struct wm_event_field){ .name = "program",
					     .type = WM_TYPE_STR,
					     .value.run = { program, strlen(program) } };
	*event = (struct wm_event){
		.size = sizeof(*event),
		.name = life_name(kind),
		.kind = (char)kind,
		.pid = process->pid,
		.cpu = -1,
		.realtime_ns = realtime_ns,
		.field_count = kind == LIFE_END ? 0 : LIFE_FIELDS,
		.fields = fields,
		.id = number_of_name(numbers, life_name(kind)),
	};
}

/* What the process's own packets say. Children that wrote into its store are not it. */
static void limits_find(const struct trace_reader *reader, uint64_t *begins, uint64_t *ends)
{
	for (uint32_t i = 0; i < reader->stream_count; i++) {
		const struct trace_stream *stream = &reader->streams[i];
		uint64_t begin, end;

		if (!stream->packets || stream->pid != reader->meta.processes[stream->process].pid)
			continue;
		begin = reader_ns(reader, stream_clock(reader, stream), stream->begin_ticks);
		end = reader_ns(reader, stream_clock(reader, stream), stream->end_ticks);
		if (!begins[stream->process] || begin < begins[stream->process])
			begins[stream->process] = begin;
		if (end > ends[stream->process])
			ends[stream->process] = end;
	}
}

static int record_order(const void *a, const void *b)
{
	const struct life_record *left = a, *right = b;

	if (left->realtime_ns != right->realtime_ns)
		return left->realtime_ns < right->realtime_ns ? -1 : 1;
	if (left->process != right->process)
		return left->process < right->process ? -1 : 1;
	return (left->kind == LIFE_END) - (right->kind == LIFE_END);
}

static void list_add(struct life_list *list, uint32_t process, enum life_kind kind,
		     uint64_t realtime_ns, uint64_t from_ns)
{
	if (realtime_ns >= from_ns)
		list->all[list->count++] = (struct life_record){ realtime_ns, process, kind };
}

int process_life_list_make(struct life_list *list, const struct trace_reader *reader,
			   uint64_t from_ns)
{
	size_t count = reader->meta.process_count;
	uint64_t *begins = calloc(count + 1, sizeof(*begins));
	uint64_t *ends = calloc(count + 1, sizeof(*ends));

	*list = (struct life_list){ .all = calloc(2 * count + 1, sizeof(*list->all)) };
	if (!begins || !ends || !list->all) {
		free(begins);
		free(ends);
		process_life_list_release(list);
		return -ENOMEM;
	}
	limits_find(reader, begins, ends);
	for (uint32_t i = 0; i < count; i++) {
		const struct fact_process *process = &reader->meta.processes[i];
		uint64_t begin = process->begin_ns, end = process->end_ns;

		if (begins[i] && begins[i] < begin)
			begin = begins[i];
		if (end && end < ends[i])
			end = ends[i];
		if (process->is_kernel)
			continue;
		if (process->way)
			list_add(list, i, (enum life_kind)process->way, begin, from_ns);
		if (end)
			list_add(list, i, LIFE_END, end, from_ns);
	}
	free(begins);
	free(ends);
	if (list->count)
		qsort(list->all, list->count, sizeof(*list->all), record_order);
	return 0;
}

void process_life_list_release(struct life_list *list)
{
	free(list->all);
	*list = (struct life_list){ 0 };
}
