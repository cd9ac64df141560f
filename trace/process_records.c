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

/* ---- which process a pid was ---- */

static int number_order(const void *left, const void *right)
{
	const struct process_number *a = left, *b = right;

	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	if (a->begin_ns != b->begin_ns)
		return a->begin_ns < b->begin_ns ? -1 : 1;
	return (a->process > b->process) - (a->process < b->process);
}

int process_numbers_make(struct process_numbers *numbers, const struct trace_reader *reader)
{
	const struct facts *meta = &reader->meta;
	const struct trace_stream *last = NULL;

	*numbers = (struct process_numbers){ 0 };
	numbers->all = calloc((size_t)meta->process_count + reader->stream_count + 1,
			      sizeof(*numbers->all));
	if (!numbers->all)
		return -ENOMEM;
	for (uint32_t i = 0; i < meta->process_count; i++)
		if (meta->processes[i].pid)
			numbers->all[numbers->count++] = (struct process_number){
				meta->processes[i].pid, i, meta->processes[i].begin_ns
			};
	/* streams are sorted by process, then pid */
	for (uint32_t i = 0; i < reader->stream_count; i++) {
		const struct trace_stream *stream = &reader->streams[i];

		if (!stream->packets || stream->is_of_cpu ||
		    stream->pid == meta->processes[stream->process].pid ||
		    (last && last->process == stream->process && last->pid == stream->pid))
			continue;
		last = stream;
		numbers->all[numbers->count++] = (struct process_number){
			stream->pid, stream->process,
			reader_ns(reader, stream_clock(reader, stream), stream->begin_ticks)
		};
	}
	if (numbers->count)
		qsort(numbers->all, numbers->count, sizeof(*numbers->all), number_order);
	return 0;
}

void process_numbers_release(struct process_numbers *numbers)
{
	free(numbers->all);
	*numbers = (struct process_numbers){ 0 };
}

uint32_t process_number_at(const struct process_numbers *numbers, uint32_t pid, uint64_t ns,
			   uint64_t *until_ns)
{
	size_t low = 0, high = numbers->count;

	/* the first that begins behind */
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct process_number *one = &numbers->all[middle];

		if (one->pid < pid || (one->pid == pid && one->begin_ns <= ns))
			low = middle + 1;
		else
			high = middle;
	}
	/* the first of all also before it began */
	if (low < numbers->count && numbers->all[low].pid == pid &&
	    (!low || numbers->all[low - 1].pid != pid))
		low++;
	if (until_ns)
		*until_ns = low < numbers->count && numbers->all[low].pid == pid
				    ? numbers->all[low].begin_ns
				    : UINT64_MAX;
	return low && numbers->all[low - 1].pid == pid ? numbers->all[low - 1].process
						       : PROCESS_NUMBER_NONE;
}
