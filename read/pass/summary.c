/* SPDX-License-Identifier: MIT */
#include "read/pass/summary.h"

#include "base/array.h"
#include "base/slots.h"
#include "read/spans/span_calls.h"
#include "read/spans/span_pairs.h"
#include "trace/packet_walk.h"
#include "trace/schema.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

/* ---- histograms ---- */

#define STEPS (1u << HISTOGRAM_STEP_BITS)

static uint32_t bucket_of(uint64_t value)
{
	unsigned int shift;

	if (value < STEPS)
		return (uint32_t)value;
	shift = 63 - (unsigned int)__builtin_clzll(value) - HISTOGRAM_STEP_BITS;
	/* The leading bit of value >> shift counts one row, so rows begin at 1. */
	return (shift << HISTOGRAM_STEP_BITS) + (uint32_t)(value >> shift);
}

static uint64_t bucket_start(uint32_t bucket)
{
	uint32_t row = bucket >> HISTOGRAM_STEP_BITS;

	if (row < 2)
		return bucket;
	return (uint64_t)(bucket - ((row - 1) << HISTOGRAM_STEP_BITS)) << (row - 1);
}

uint64_t summary_bucket_middle(uint32_t bucket)
{
	uint64_t start = bucket_start(bucket);

	return start + (bucket_start(bucket + 1) - start) / 2;
}

void summary_time_add(struct histogram *histogram, uint64_t value)
{
	if (!histogram->count || value < histogram->min)
		histogram->min = value;
	if (value > histogram->max)
		histogram->max = value;
	histogram->count++;
	histogram->sum += value;
	histogram->buckets[bucket_of(value)]++;
}

uint64_t summary_quantile(const struct histogram *histogram, double part)
{
	uint64_t rank, below = 0, value;
	uint32_t bucket = 0;

	if (!histogram->count)
		return 0;
	rank = (uint64_t)((double)histogram->count * part);
	if (!rank)
		return histogram->min;
	if (rank >= histogram->count - 1)
		return histogram->max;
	while (below + histogram->buckets[bucket] <= rank)
		below += histogram->buckets[bucket++];
	/* no value that never was */
	value = summary_bucket_middle(bucket);
	if (value < histogram->min)
		value = histogram->min;
	return value > histogram->max ? histogram->max : value;
}

uint64_t summary_times_between(const struct histogram *histogram, uint64_t low, uint64_t high)
{
	uint64_t count = 0;

	for (uint32_t bucket = bucket_of(low); bucket < HISTOGRAM_BUCKETS; bucket++) {
		uint64_t start = bucket_start(bucket);

		if (start >= high)
			break;
		if (start >= low)
			count += histogram->buckets[bucket];
	}
	return count;
}

/* ---- sums of the kernel's events ---- */

#define PREFIX "count:"
#define PREFIX_BYTES (sizeof(PREFIX) - 1)
#define THREAD_BYTES 8 /* a pid and a tid are the first two fields */

/* count:A+B+...: a value of each, then the two times. */
static int is_count(const struct trace_class *class)
{
	if (strncmp(class->name, PREFIX, PREFIX_BYTES) != 0 || !class->has_thread ||
	    class->count < 2 + KERNEL_COUNT_VALUES)
		return 0;
	for (uint8_t i = 2; i < class->count; i++)
		if (class->types[i] != WM_TYPE_U64)
			return 0;
	return 1;
}

static int is_throttled(const struct trace_class *class)
{
	return class->has_thread && class->count == 3 && class->types[2] == WM_TYPE_STR &&
	       !strcmp(class->name, "kernel:throttled");
}

/* Whether its events are summed. */
static int kernel_sums_has(const struct trace_class *class)
{
	return is_count(class) || is_throttled(class);
}

static int is_clock(const char *name, size_t bytes)
{
	const char *modifiers = memchr(name, ':', bytes);

	bytes = modifiers ? (size_t)(modifiers - name) : bytes;
	return (bytes == 9 && !strncmp(name, "cpu-clock", bytes)) ||
	       (bytes == 10 && !strncmp(name, "task-clock", bytes));
}

/* The row of a count; NULL: no room. They take turns, so the next one is likely the one after. */
static struct kernel_count *count_of(struct kernel_sums *sums, const char *name, size_t bytes,
				     uint32_t pid)
{
	struct kernel_count *added;

	if (bytes >= sizeof(added->name))
		bytes = sizeof(added->name) - 1;
	for (size_t i = 0; i < sums->count; i++) {
		struct kernel_count *count = &sums->counts[(sums->next + i) % sums->count];

		if (count->pid != pid || strncmp(count->name, name, bytes) != 0 ||
		    count->name[bytes])
			continue;
		sums->next = (size_t)(count - sums->counts) + 1;
		return count;
	}
	if (sums->count == KERNEL_SUMS_MAX)
		return NULL;
	added = &sums->counts[sums->count++];
	*added = (struct kernel_count){ .pid = pid, .is_time = is_clock(name, bytes) };
	memcpy(added->name, name, bytes);
	return added;
}

/* times: enabled and running. */
static void count_take(struct kernel_count *count, const uint8_t *value, const uint8_t *times)
{
	uint64_t now[KERNEL_COUNT_VALUES];

	memcpy(now, value, sizeof(*now));
	memcpy(now + 1, times, sizeof(now) - sizeof(*now));
	/* it began again: a session that was started twice */
	for (int i = 0; now[1] < count->last[1] && i < KERNEL_COUNT_VALUES; i++)
		count->before[i] += count->last[i];
	memcpy(count->last, now, sizeof(now));
	count->count = count->before[0] + now[0];
	count->enabled_ns = count->before[1] + now[1];
	count->running_ns = count->before[2] + now[2];
}

static void throttle_take(struct kernel_sums *sums, const char *event)
{
	struct kernel_throttle *all = sums->throttles;
	size_t i = 0;

	while (i < sums->throttle_count &&
	       strncmp(all[i].event, event, sizeof(all[i].event) - 1) != 0)
		i++;
	if (i == KERNEL_SUMS_MAX)
		return;
	if (i == sums->throttle_count) {
		all[i] = (struct kernel_throttle){ .times = 0 };
		snprintf(all[sums->throttle_count++].event, sizeof(all[i].event), "%s", event);
	}
	all[i].times++;
}

/*
 * Take an event of such a class. Those of a count come in order of time. 0 or -ENOMEM.
 */
static int kernel_sums_add(struct kernel_sums *sums, const struct trace_class *class,
			   const uint8_t *fields)
{
	const char *name = class->name + PREFIX_BYTES;
	const uint8_t *value = fields + THREAD_BYTES, *times;
	size_t values;

	if (is_throttled(class)) {
		if (array_grow(&sums->throttles, &sums->throttle_room, sums->throttle_count + 1,
			       sizeof(*sums->throttles)))
			return -ENOMEM;
		throttle_take(sums, (const char *)fields + THREAD_BYTES + 1);
		return 0;
	}
	values = class->count - (size_t)KERNEL_COUNT_VALUES - 1;
	times = value + values * sizeof(uint64_t);
	if (array_grow(&sums->counts, &sums->room, sums->count + values, sizeof(*sums->counts)))
		return -ENOMEM;
	for (; value < times; value += sizeof(uint64_t)) {
		size_t bytes = strcspn(name, "+");
		struct kernel_count *count = count_of(sums, name, bytes, load_u32(fields));

		if (count)
			count_take(count, value, times);
		name += bytes + (name[bytes] == '+');
	}
	return 0;
}

int summary_count_is_scaled(const struct kernel_count *count)
{
	return count->running_ns < count->enabled_ns;
}

double summary_count_scaled(const struct kernel_count *count)
{
	if (!summary_count_is_scaled(count))
		return (double)count->count;
	if (!count->running_ns)
		return -1;
	return (double)count->count * ((double)count->enabled_ns / (double)count->running_ns);
}

static void kernel_sums_release(struct kernel_sums *sums)
{
	free(sums->counts);
	free(sums->throttles);
	*sums = (struct kernel_sums){ 0 };
}

/* ---- the pass ---- */

/* The counts of an event class of one process. The loop over events touches only this. */
struct tally {
	const struct trace_class *class;
	int32_t fixed_bytes;
	char kind;
	char is_summed; /* by summary->kernel */
	uint64_t count;
	uint64_t rated;	      /* of these, in the row's rate */
	uint64_t last_thread; /* the one that was counted last */
	uint32_t row;	      /* its place in the summary's events[] */
	uint32_t span;	      /* its place in spans[] */
	struct span_costs costs;
	struct summary_slice *slices; /* its row's; NULL: not asked for */
};

/* What a row counted last: classes of one name may have different fields. */
struct seen {
	uint64_t thread;
	uint64_t process; /* its number, from 1, above its pid: forked children share the number */
};

/* A row and a thread's or a process's number. */
struct pair {
	uint32_t number;
	uint32_t row;
	int is_process;
};

/* The reading of one trace. */
struct pass {
	struct trace_reader *reader;
	struct summary *summary;
	struct tally **tallies;	 /* for each process, by class index */
	struct seen *seen;	 /* for each of the summary's events[] */
	struct slots span_slots; /* of the summary's spans, by name */
	/* Of the kernel's events: which threads and processes each row had. */
	struct pair *pairs;
	uint32_t pair_count;
	size_t pair_room;
	struct slots pair_slots;
	int error;
	int is_sliced;

	/* Of the stream being read. */
	struct tally *first_ids[EVENT_EXTENDED]; /* by compact id; NULL for none */
	uint64_t thread;			 /* its number, from 1 */
	struct span_pairs spans;
	uint64_t covered_ticks; /* by its packets, and between those that follow one another */
};

size_t summary_span_bytes(const struct trace_class *class)
{
	const char *suffix = class->kind == 'b' ? ":begin" : ":end";
	size_t cut = strlen(suffix);

	if (class->name_bytes > cut && !strcmp(class->name + class->name_bytes - cut, suffix))
		return class->name_bytes - cut;
	return class->name_bytes;
}

static int span_find(struct pass *pass, const struct trace_class *class, uint64_t ticks_hz,
		     uint32_t *found)
{
	struct summary *summary = pass->summary;
	size_t bytes = summary_span_bytes(class);
	uint64_t key = ticks_hz;
	struct summary_span *span;
	uint32_t hash;

	for (size_t i = 0; i < bytes; i++) /* FNV-1a */
		key = (key ^ (uint8_t) class->name[i]) * 0x100000001b3ull;
	hash = slots_hash(key);
	if (slots_fit(&pass->span_slots))
		return -ENOMEM;
	for (uint64_t at = hash; slots_next(&pass->span_slots, hash, &at, found);) {
		span = &summary->spans[*found];
		if (span->ticks_hz == ticks_hz && !strncmp(span->name, class->name, bytes) &&
		    !span->name[bytes])
			return 0;
	}
	*found = summary->span_count;
	span = &summary->spans[*found];
	*span = (struct summary_span){ .name = strndup(class->name, bytes),
				       .number = summary->span_count,
				       .ticks_hz = ticks_hz,
				       .times = &span_unmeasured };
	if (pass->is_sliced)
		span->slices = calloc(SUMMARY_SLICES, sizeof(*span->slices));
	if (!span->name || (pass->is_sliced && !span->slices)) {
		summary->span_count++;
		return -ENOMEM;
	}
	slots_add(&pass->span_slots, hash, summary->span_count++);
	return 0;
}

/* Room for as many spans as there are begins and ends. */
static int spans_make(struct pass *pass)
{
	const struct facts *meta = &pass->reader->meta;
	uint32_t most = 0;

	for (uint32_t i = 0; i < meta->process_count; i++) {
		const struct trace_schema *schema = meta->processes[i].schema;

		for (uint32_t j = 0; schema && j < schema->count; j++)
			most += schema->classes[j]->kind == 'b' || schema->classes[j]->kind == 'e';
	}
	pass->summary->spans = calloc(most + 1u, sizeof(*pass->summary->spans));
	return pass->summary->spans ? 0 : -ENOMEM;
}

static int tallies_make(struct pass *pass)
{
	const struct facts *meta = &pass->reader->meta;

	pass->tallies = calloc(meta->process_count + 1, sizeof(*pass->tallies));
	if (!pass->tallies)
		return -ENOMEM;
	for (uint32_t i = 0; i < meta->process_count; i++) {
		const struct fact_process *process = &meta->processes[i];
		uint64_t hz = meta->clocks[process->clock].ticks_hz;

		if (!process->schema || !process->schema->count)
			continue;
		pass->tallies[i] = calloc(process->schema->count, sizeof(struct tally));
		if (!pass->tallies[i])
			return -ENOMEM;
		for (uint32_t j = 0; j < process->schema->count; j++) {
			const struct trace_class *class = process->schema->classes[j];
			struct tally *tally = &pass->tallies[i][j];

			*tally = (struct tally){ .class = class,
						 .kind = class->kind,
						 .is_summed = (char)kernel_sums_has(class),
						 .fixed_bytes = class->fixed_bytes };
			if (class->kind != 'b' && class->kind != 'e')
				continue;
			if (span_find(pass, class, hz, &tally->span))
				return -ENOMEM;
			span_costs_find(&tally->costs, &pass->summary->spans[tally->span], class);
		}
	}
	return 0;
}

static int spans_by_name(const void *left, const void *right)
{
	const struct summary_span *a = left, *b = right;
	int order = strcmp(a->name, b->name);

	return order ? order : (a->number > b->number) - (a->number < b->number);
}

/* Sort the spans before any is counted: from then on they have their places. */
static int spans_sort(struct pass *pass)
{
	const struct facts *meta = &pass->reader->meta;
	struct summary *summary = pass->summary;
	uint32_t *places = calloc(summary->span_count + 1ul, sizeof(*places));

	if (!places)
		return -ENOMEM;
	if (summary->span_count)
		qsort(summary->spans, summary->span_count, sizeof(*summary->spans), spans_by_name);
	for (uint32_t i = 0; i < summary->span_count; i++)
		places[summary->spans[i].number] = i;
	for (uint32_t i = 0; i < meta->process_count; i++)
		for (uint32_t j = 0; pass->tallies[i] && j < meta->processes[i].schema->count; j++)
			pass->tallies[i][j].span = places[pass->tallies[i][j].span];
	free(places);
	return 0;
}

static int by_name(const void *left, const void *right)
{
	const struct tally *a = *(struct tally *const *)left, *b = *(struct tally *const *)right;
	int order = strcmp(a->class->name, b->class->name);

	order = order ? order : a->kind - b->kind;
	return order ? order : a->class->has_thread - b->class->has_thread;
}

/* Make a row for each name and kind, over all processes. */
static int rows_make(struct pass *pass)
{
	const struct facts *meta = &pass->reader->meta;
	struct summary *summary = pass->summary;
	struct tally **sorted;
	size_t room = 1, count = 0;

	for (uint32_t i = 0; i < meta->process_count; i++)
		room += meta->processes[i].schema ? meta->processes[i].schema->count : 0;
	summary->events = calloc(room, sizeof(*summary->events));
	pass->seen = calloc(room, sizeof(*pass->seen));
	sorted = calloc(room, sizeof(struct tally *));
	if (!summary->events || !pass->seen || !sorted) {
		free(sorted);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < meta->process_count; i++) {
		for (uint32_t j = 0; pass->tallies[i] && j < meta->processes[i].schema->count; j++)
			sorted[count++] = &pass->tallies[i][j];
	}
	qsort(sorted, count, sizeof(struct tally *), by_name);
	for (size_t i = 0; i < count; i++) {
		if (!i || by_name(&sorted[i - 1], &sorted[i]) != 0)
			summary->events[summary->event_count++] = (struct summary_event){
				.name = sorted[i]->class->name,
				.kind = sorted[i]->kind,
				.is_kernel = (char)sorted[i]->class->has_thread
			};
		sorted[i]->row = summary->event_count - 1;
	}
	free(sorted);
	return 0;
}

/* Slices of each row, which its tallies count into. */
static int slices_make(struct pass *pass)
{
	const struct facts *meta = &pass->reader->meta;
	struct summary *summary = pass->summary;

	for (uint32_t i = 0; i < summary->event_count; i++) {
		summary->events[i].slices = calloc(SUMMARY_SLICES, sizeof(struct summary_slice));
		if (!summary->events[i].slices)
			return -ENOMEM;
	}
	for (uint32_t i = 0; i < meta->process_count; i++)
		for (uint32_t j = 0; pass->tallies[i] && j < meta->processes[i].schema->count;
		     j++) {
			struct tally *tally = &pass->tallies[i][j];

			tally->slices = summary->events[tally->row].slices;
		}
	return 0;
}

static struct tally *tally_find(const struct pass *pass, const struct trace_stream *stream,
				uint32_t id)
{
	const struct trace_class *class;

	if (id < EVENT_EXTENDED)
		return pass->first_ids[id];
	class = schema_find(stream_schema(pass->reader, stream), id);
	return class ? &pass->tallies[stream->process][class->index] : NULL;
}

static void thread_count(struct pass *pass, uint32_t row, const struct trace_stream *stream)
{
	uint64_t process = (uint64_t)(stream->process + 1) << 32 | stream->pid;
	struct summary_event *event = &pass->summary->events[row];
	struct seen *seen = &pass->seen[row];

	event->threads += seen->thread != pass->thread;
	event->processes += seen->process != process;
	*seen = (struct seen){ pass->thread, process };
}

/* Rows of no event: all threads that have a stream, or that the kernel's events are about. */
#define ROW_OF_STREAMS UINT32_MAX
#define ROW_OF_KERNEL (UINT32_MAX - 1)

/* Whether the row has this for the first time. */
static int pair_add(struct pass *pass, const struct pair *pair)
{
	uint32_t hash = slots_hash((uint64_t)pair->row << 32 | pair->number), found;

	if (!pair->number)
		return 0;
	if (slots_fit(&pass->pair_slots) ||
	    array_grow(&pass->pairs, &pass->pair_room, pass->pair_count + 1ul,
		       sizeof(*pass->pairs))) {
		pass->error = -ENOMEM;
		return 0;
	}
	for (uint64_t at = hash; slots_next(&pass->pair_slots, hash, &at, &found);)
		if (pass->pairs[found].number == pair->number &&
		    pass->pairs[found].row == pair->row &&
		    pass->pairs[found].is_process == pair->is_process)
			return 0;
	slots_add(&pass->pair_slots, hash, pass->pair_count);
	pass->pairs[pass->pair_count++] = *pair;
	return 1;
}

/* A CPU's events are about many threads. */
static void kernel_count(struct pass *pass, const struct tally *tally, const uint8_t *fields)
{
	struct summary_event *event = &pass->summary->events[tally->row];
	uint32_t pid, tid;

	event_thread(tally->class, fields, &pid, &tid);
	event->threads += (uint32_t)pair_add(pass, &(struct pair){ tid, tally->row, 0 });
	event->processes += (uint32_t)pair_add(pass, &(struct pair){ pid, tally->row, 1 });
	if (strncmp(event->name, "task:", 5)) /* the recorder names wakers, too */
		pair_add(pass, &(struct pair){ tid, ROW_OF_KERNEL, 0 });
	if (tally->is_summed && kernel_sums_add(&pass->summary->kernel, tally->class, fields))
		pass->error = -ENOMEM;
}

/* Count a packet's events. NULL, or why it can't be read on from *start. */
static const char *read_packet(struct pass *pass, const struct trace_stream *stream,
			       struct trace_packet *packet, const uint8_t **start)
{
	struct walk walk = packet->walk;
	uint64_t end_ticks = packet->head.end_ticks, ticks = walk.ticks;
	int is_heard = pass->spans.calls != NULL;
	const uint8_t *fields;
	struct tally *tally;
	uint32_t id;

	for (; walk.at < walk.end; ticks = walk.ticks) {
		*start = walk.at;
		if (walk_header(&walk, &id))
			return "cut in an event's head";
		tally = tally_find(pass, stream, id);
		if (!tally)
			return "an event that the facts lack";
		if (walk.ticks < ticks || walk.ticks > end_ticks)
			return "an event outside its packet's time";
		fields = walk.at;
		if (tally->fixed_bytes) /* else the next event need not wait for fixed_bytes */
			walk.at = walk_fields_end(&walk, tally->fixed_bytes, tally->class);
		if (!walk.at)
			return "cut in an event";
		tally->count++;
		if (tally->slices)
			tally->slices[summary_slice_of(&pass->spans.slicing, walk.ticks)].count++;
		if (stream->is_of_cpu) {
			kernel_count(pass, tally, fields);
		} else if (tally->last_thread != pass->thread) {
			tally->last_thread = pass->thread;
			thread_count(pass, tally->row, stream);
		}
		if (is_heard) {
			pass->spans.class = tally->class;
			pass->spans.fields = fields;
			pass->spans.place.at = (uint32_t)(fields - packet->bytes);
		}
		if (tally->kind == 'b')
			span_pairs_begin(&pass->spans, tally->span, &tally->costs, walk.ticks,
					 walk.at);
		else if (tally->kind == 'e')
			span_pairs_end(&pass->spans, tally->span, &tally->costs, walk.ticks,
				       walk.at);
	}
	return NULL;
}

static int read_stream(struct pass *pass, struct trace_stream *stream)
{
	uint64_t offset = 0, next_seq = 0, discarded = 0, end_ticks = 0;
	struct trace_packet packet;
	int err = reader_stream_open(pass->reader, stream);

	pass->covered_ticks = 0;
	pass->spans.place.stream = (uint32_t)(stream - pass->reader->streams);
	span_pairs_stream(&pass->spans);
	if (err) {
		reader_damage(pass->reader, stream->file, 0, stream->bytes,
			      "can't be read any more");
		return err == -ENOMEM ? err : 0;
	}
	while (reader_stream_packet(pass->reader, stream, &offset, &packet)) {
		const uint8_t *start = packet.walk.at;
		const char *fault;

		if (packet.head.discarded != discarded || packet.head.seq != next_seq)
			span_pairs_forget(&pass->spans);
		else if (next_seq && packet.head.begin_ticks > end_ticks)
			pass->covered_ticks += packet.head.begin_ticks - end_ticks;
		pass->covered_ticks += packet.head.end_ticks - packet.head.begin_ticks;
		end_ticks = packet.head.end_ticks;
		discarded = packet.head.discarded;
		next_seq = packet.head.seq + 1;
		pass->spans.place.packet = packet.offset;
		fault = read_packet(pass, stream, &packet, &start);
		if (!fault)
			continue;
		reader_damage(pass->reader, stream->file,
			      packet.offset + (uint64_t)(start - packet.bytes),
			      (uint64_t)(packet.walk.end - start), fault);
		span_pairs_forget(&pass->spans);
	}
	span_pairs_stream_end(&pass->spans);
	reader_stream_unmap(stream);
	return pass->error;
}

static void first_ids_find(struct pass *pass, const struct trace_stream *stream)
{
	const struct trace_schema *schema = stream_schema(pass->reader, stream);

	for (uint32_t id = 0; id < EVENT_EXTENDED; id++) {
		const struct trace_class *class = schema_find(schema, id);

		pass->first_ids[id] = class ? &pass->tallies[stream->process][class->index] : NULL;
	}
}

static void count_stream(struct pass *pass, const struct trace_stream *stream)
{
	struct summary *summary = pass->summary;
	uint32_t clock = stream_clock(pass->reader, stream);
	uint64_t begin = reader_ns(pass->reader, clock, stream->begin_ticks);
	uint64_t end = reader_ns(pass->reader, clock, stream->end_ticks);

	if (!summary->end_ns || begin < summary->begin_ns)
		summary->begin_ns = begin;
	if (end > summary->end_ns)
		summary->end_ns = end;
	summary->streams_lossy += stream->discarded || stream->missing_packets;
}

static void streamed_count(struct pass *pass, uint32_t tid)
{
	pass->thread = ++pass->summary->threads;
	pair_add(pass, &(struct pair){ tid, ROW_OF_STREAMS, 0 });
}

/* Those that have no stream. */
static void count_kernel_threads(struct pass *pass)
{
	uint32_t count = pass->pair_count;

	for (uint32_t i = 0; i < count; i++)
		if (pass->pairs[i].row == ROW_OF_KERNEL)
			pass->summary->threads += (uint32_t)pair_add(
				pass, &(struct pair){ pass->pairs[i].number, ROW_OF_STREAMS, 0 });
}

/* How long the stream's events were recorded that are there. */
static double stream_seconds(const struct pass *pass, const struct trace_stream *stream)
{
	const struct summary *summary = pass->summary;
	uint64_t between_ns = summary->end_ns - summary->begin_ns;
	uint64_t length_ns = pass->reader->length_ns;
	uint32_t clock = stream_clock(pass->reader, stream);
	uint64_t hz = pass->reader->meta.clocks[clock].ticks_hz;

	if (summary->is_cyclic && stream->discarded && pass->covered_ticks && hz)
		return (double)pass->covered_ticks / (double)hz +
		       (double)(summary->end_ns -
				reader_ns(pass->reader, clock, stream->end_ticks)) /
			       1e9;
	return (double)(length_ns > between_ns ? length_ns : between_ns) / 1e9;
}

/* Add the events of a stream that was read to the rates of their rows. */
static void rates_add(struct pass *pass, const struct trace_stream *stream)
{
	const struct trace_schema *schema = stream_schema(pass->reader, stream);
	double seconds = stream_seconds(pass, stream);

	for (uint32_t i = 0; i < schema->count; i++) {
		struct tally *tally = &pass->tallies[stream->process][i];

		if (seconds > 0)
			pass->summary->events[tally->row].per_second += (double)(tally->count -
										 tally->rated) /
									seconds;
		tally->rated = tally->count;
	}
}

/* Where the slices are in that stream's ticks. */
static void slicing_find(struct pass *pass, const struct trace_stream *stream)
{
	const struct summary *summary = pass->summary;
	uint32_t clock = stream_clock(pass->reader, stream);
	double per_ns = (double)pass->reader->meta.clocks[clock].ticks_hz / 1e9;
	double from = (double)(summary->begin_ns - pass->reader->base_ns[clock]) * per_ns;
	double length = (double)(summary->end_ns - summary->begin_ns) * per_ns / SUMMARY_SLICES;

	pass->spans.slicing = (struct summary_slicing){
		from < 0x1p64 ? (uint64_t)from : UINT64_MAX,
		length < 0x1p64 ? (uint64_t)length + 1 : UINT64_MAX,
	};
}

static int is_of_thread(const struct trace_stream *a, const struct trace_stream *b)
{
	return a->process == b->process && a->pid == b->pid && a->tid == b->tid;
}

/* Whether spans of this thread may begin in one stream and end in another; not across a gap. */
static int may_have_halves(const struct trace_reader *reader, uint32_t first)
{
	const struct trace_stream *thread = &reader->streams[first];
	uint32_t i = first;

	for (; i < reader->stream_count && is_of_thread(thread, &reader->streams[i]); i++)
		if (reader->streams[i].discarded || reader->streams[i].missing_packets)
			return 0;
	return i > first + 1;
}

static int read_streams(struct pass *pass)
{
	const char *in_memory = pass->reader->meta.in_memory;
	const struct trace_stream *last = NULL;
	int err = 0;

	pass->summary->is_cyclic = in_memory && !strcmp(in_memory, "events");
	for (uint32_t i = 0; i < pass->reader->stream_count; i++)
		if (pass->reader->streams[i].packets)
			count_stream(pass, &pass->reader->streams[i]);
	for (uint32_t i = 0; !err && i < pass->reader->stream_count; i++) {
		struct trace_stream *stream = &pass->reader->streams[i];

		if (!stream->packets)
			continue;
		if (!last || last->process != stream->process)
			first_ids_find(pass, stream);
		if (!last || stream->is_of_cpu || !is_of_thread(last, stream)) {
			span_pairs_thread(&pass->spans,
					  !stream->is_of_cpu && may_have_halves(pass->reader, i));
			if (!stream->is_of_cpu)
				streamed_count(pass, stream->tid);
		}
		last = stream;
		slicing_find(pass, stream);
		err = read_stream(pass, stream);
		rates_add(pass, stream);
	}
	span_pairs_thread(&pass->spans, 0);
	reader_losses(pass->reader, &pass->summary->discarded, &pass->summary->missing_packets);
	count_kernel_threads(pass);
	return err;
}

static int by_count(const void *left, const void *right)
{
	const struct summary_event *a = left, *b = right;
	int order;

	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	order = strcmp(a->name, b->name);
	return order ? order : a->kind - b->kind;
}

/* Add up what each row's classes counted, and sort. */
static void rows_finish(struct pass *pass)
{
	const struct facts *meta = &pass->reader->meta;
	struct summary *summary = pass->summary;

	for (uint32_t i = 0; i < meta->process_count; i++) {
		for (uint32_t j = 0; pass->tallies[i] && j < meta->processes[i].schema->count;
		     j++) {
			const struct tally *tally = &pass->tallies[i][j];

			summary->total += tally->count;
			summary->events[tally->row].count += tally->count;
		}
	}
	qsort(summary->events, summary->event_count, sizeof(*summary->events), by_count);
}

static int make(struct summary **summary, struct trace_reader *reader, struct span_calls *calls,
		int is_sliced)
{
	struct pass pass = { .reader = reader, .spans.calls = calls, .is_sliced = is_sliced };
	int err;

	*summary = pass.summary = calloc(1, sizeof(*pass.summary));
	if (!pass.summary)
		return -ENOMEM;
	err = spans_make(&pass);
	if (!err)
		err = tallies_make(&pass);
	if (!err)
		err = spans_sort(&pass);
	if (!err && calls)
		err = span_calls_open(calls, reader, pass.summary);
	if (!err)
		err = rows_make(&pass);
	if (!err && is_sliced)
		err = slices_make(&pass);
	pass.spans.all = pass.summary->spans;
	if (!err)
		err = read_streams(&pass);
	if (!err)
		rows_finish(&pass);
	if (!err && calls)
		err = span_calls_finish(calls);
	for (uint32_t i = 0; pass.tallies && i < reader->meta.process_count; i++)
		free(pass.tallies[i]);
	free(pass.tallies);
	free(pass.seen);
	free(pass.pairs);
	free(pass.pair_slots.all);
	span_pairs_release(&pass.spans);
	free(pass.span_slots.all);
	if (err) {
		summary_free(*summary);
		*summary = NULL;
	}
	return err;
}

int summary_make(struct summary **summary, struct trace_reader *reader)
{
	return make(summary, reader, NULL, 0);
}

int summary_make_calls(struct summary **summary, struct trace_reader *reader,
		       struct span_calls *calls)
{
	return make(summary, reader, calls, 0);
}

int summary_make_sliced(struct summary **summary, struct trace_reader *reader)
{
	return make(summary, reader, NULL, 1);
}

void summary_free(struct summary *summary)
{
	if (!summary)
		return;
	for (uint32_t i = 0; i < summary->span_count; i++) {
		free(summary->spans[i].name);
		free(summary->spans[i].slices);
		if (summary->spans[i].times != &span_unmeasured)
			free(summary->spans[i].times);
	}
	for (uint32_t i = 0; i < summary->event_count; i++)
		free(summary->events[i].slices);
	kernel_sums_release(&summary->kernel);
	free(summary->spans);
	free(summary->events);
	free(summary);
}
