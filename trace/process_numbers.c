/* SPDX-License-Identifier: MIT */
#include "trace/process_numbers.h"

#include <errno.h>
#include <stdlib.h>

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
