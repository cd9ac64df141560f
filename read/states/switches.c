/* SPDX-License-Identifier: MIT */
#include "read/states/switches.h"

#include "base/array.h"
#include "base/sorted.h"
#include "read/spans/span_pairs.h"
#include "trace/process_records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_SPANS_MAX (1u << 20) /* of all streams; of more, a stream's oldest go unmeasured */

enum role_kind { ROLE_NONE, ROLE_KERNEL, ROLE_LOST, ROLE_BEGIN, ROLE_END };

/* What an event class is to us. */
struct role {
	uint8_t kind;
	uint8_t event; /* enum thread_event_kind */
	uint32_t span; /* in the summary's spans[] */
};

/* A CPU's stream. */
struct cpu_stream {
	uint64_t last_ns; /* of its event before; 0: none */
	uint64_t lost;	  /* by kernel:lost, and not yet by a packet, which counts these too */
};

/* What a CPU's stream lost: it is in time after from_ns and up to to_ns. */
struct loss {
	uint64_t from_ns, to_ns, events;
	int32_t cpu;
	int is_wakes; /* wakes alone */
};

struct switches_reading {
	struct switches *switches;
	struct trace_reader *reader;
	struct role **roles;	    /* for each process, by class index */
	struct span_stack *streams; /* by the place in the reader's streams[] */
	struct cpu_stream *cpus;    /* likewise */
	struct loss *losses;	    /* by from_ns */
	size_t loss_count, loss_room, losses_told;
	uint64_t open_count;
	uint64_t end_ns; /* of the trace */
	struct process_numbers numbers;
};

/* ---- event classes ---- */

#define THREAD_BYTES 8 /* a pid and a tid are the first two fields */

/* The events that switches are made of, and the types of their next fields. */
static const struct kernel_event {
	const char *name;
	uint8_t kind, event;
	uint8_t types[4];
} kernel_events[] = {
	{ "switch:depart",
	  ROLE_KERNEL,
	  THREAD_DEPARTS,
	  { WM_TYPE_BOOL, WM_TYPE_CHAR, WM_TYPE_PTR } },
	{ "switch:arrive", ROLE_KERNEL, THREAD_ARRIVES, { 0 } },
	{ "switch:wake", ROLE_KERNEL, THREAD_WOKEN, { WM_TYPE_I32, WM_TYPE_I32 } },
	{ "switch:runnable", ROLE_KERNEL, THREAD_RUN_DELAY, { WM_TYPE_U64 } },
	{ "task:fork", ROLE_KERNEL, THREAD_IS_BORN, { 0 } },
	{ "task:exit", ROLE_KERNEL, THREAD_EXITS, { 0 } },
	{ "task:name", ROLE_KERNEL, THREAD_IS_NAMED, { 0 } },
	{ "kernel:lost", ROLE_LOST, 0, { WM_TYPE_U64 } },
};

#define KERNEL_EVENTS (sizeof(kernel_events) / sizeof(*kernel_events))

/* NULL: another event, or one with other fields. */
static const struct kernel_event *kernel_event_of(const struct trace_class *class)
{
	for (size_t i = 0; class->has_thread && i < KERNEL_EVENTS; i++)
		if (!strcmp(class->name, kernel_events[i].name) &&
		    !strncmp((const char *)class->types + 2, (const char *)kernel_events[i].types,
			     strlen((const char *)kernel_events[i].types)))
			return &kernel_events[i];
	return NULL;
}

int switches_has(const struct trace_reader *reader)
{
	for (uint32_t i = 0; i < reader->meta.process_count; i++) {
		const struct fact_process *process = &reader->meta.processes[i];

		for (uint32_t j = 0; process->is_kernel && j < process->schema->count; j++) {
			const struct kernel_event *event = kernel_event_of(
				process->schema->classes[j]);

			if (event && event->kind == ROLE_KERNEL && event->event <= THREAD_ARRIVES)
				return 1;
		}
	}
	return 0;
}

static void kernel_roles_make(struct switches_reading *reading, uint32_t process)
{
	const struct trace_schema *schema = reading->reader->meta.processes[process].schema;

	for (uint32_t i = 0; i < schema->count; i++) {
		const struct kernel_event *event = kernel_event_of(schema->classes[i]);

		if (event)
			reading->roles[process][i] = (struct role){ .kind = event->kind,
								    .event = event->event };
	}
}

/* The place of a class's span in the summary, or its count of spans. */
static uint32_t span_of(const struct summary *summary, const struct trace_class *class, uint64_t hz)
{
	size_t bytes = summary_span_bytes(class);
	uint32_t low = 0, high = summary->span_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const char *name = summary->spans[middle].name;

		if (strncmp(name, class->name, bytes) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	/* behind it is the one of the other clock, then names that begin like this one */
	for (; low < summary->span_count; low++) {
		const struct summary_span *span = &summary->spans[low];

		if (strncmp(span->name, class->name, bytes) != 0)
			break;
		if (!span->name[bytes] && span->ticks_hz == hz)
			return low;
	}
	return summary->span_count;
}

static void span_roles_make(struct switches_reading *reading, uint32_t number,
			    const struct summary *summary)
{
	const struct fact_process *process = &reading->reader->meta.processes[number];
	uint64_t hz = reading->reader->meta.clocks[process->clock].ticks_hz;

	for (uint32_t i = 0; i < process->schema->count; i++) {
		const struct trace_class *class = process->schema->classes[i];
		uint32_t span;

		if (class->kind != 'b' && class->kind != 'e')
			continue;
		span = span_of(summary, class, hz);
		if (span < summary->span_count)
			reading->roles[number][i] = (struct role){
				.kind = class->kind == 'b' ? ROLE_BEGIN : ROLE_END, .span = span
			};
	}
}

static int has_roles(const struct role *roles, uint32_t count)
{
	uint32_t i = 0;

	while (i < count && !roles[i].kind)
		i++;
	return i < count;
}

/* Processes without any have none. */
static int roles_make(struct switches_reading *reading, const struct summary *summary)
{
	const struct facts *meta = &reading->reader->meta;

	reading->roles = calloc((size_t)meta->process_count + 1, sizeof(*reading->roles));
	for (uint32_t i = 0; reading->roles && i < meta->process_count; i++) {
		uint32_t count = meta->processes[i].schema ? meta->processes[i].schema->count : 0;

		if (!count)
			continue;
		reading->roles[i] = calloc(count, sizeof(struct role));
		if (!reading->roles[i])
			return -ENOMEM;
		if (meta->processes[i].is_kernel)
			kernel_roles_make(reading, i);
		else
			span_roles_make(reading, i, summary);
		if (!has_roles(reading->roles[i], count)) {
			free(reading->roles[i]);
			reading->roles[i] = NULL;
		}
	}
	return reading->roles ? 0 : -ENOMEM;
}

/* ---- spans ---- */

static void spans_forget(struct switches_reading *reading, struct span_stack *spans,
			 uint32_t oldest)
{
	span_stack_remove_oldest(spans, oldest);
	reading->open_count -= oldest;
}

static int span_begin(struct switches_reading *reading, struct span_stack *spans, uint32_t span,
		      uint64_t ticks, const uint64_t ns[THREAD_TIMES])
{
	struct span_half *open;

	if (reading->open_count >= OPEN_SPANS_MAX)
		spans_forget(reading, spans, (spans->count + 1) / 2);
	open = span_stack_push(spans, span);
	if (!open)
		return -ENOMEM;
	reading->open_count++;
	open->ticks = ticks;
	memcpy(open->values, ns, THREAD_TIMES * sizeof(*ns));
	return 0;
}

static void span_end(struct switches_reading *reading, struct span_stack *spans, uint32_t span,
		     const struct merge_event *event, const uint64_t ns[THREAD_TIMES])
{
	const struct switches *switches = reading->switches;
	struct switch_span *sum = &switches->spans[span];
	struct span_half *open = span_stack_find(spans, span);
	uint64_t within[THREAD_TIMES];

	if (!open)
		return;
	/* a clock may have been a little before the other's at one of the two */
	for (int i = 0; i < THREAD_TIMES; i++) {
		within[i] = ns[i] > open->values[i] ? ns[i] - open->values[i] : 0;
		sum->ns[i] += within[i];
	}
	sum->count++;
	if (switches->take_span)
		switches->take_span(event, span, open->ticks, within, switches->span_data);
	span_stack_remove(spans, open);
	reading->open_count--;
}

static int span_add(struct switches_reading *reading, const struct role *role,
		    const struct merge_event *event)
{
	struct span_stack *spans = &reading->streams[event->stream - reading->reader->streams];
	uint64_t ns[THREAD_TIMES];
	int err;

	/* an end may be in what was lost, or in what could not be read */
	if (pass_is_gap(event))
		spans_forget(reading, spans, spans->count);
	if (!role || !role->kind)
		return 0;
	err = thread_states_times(&reading->switches->states, event->pid, event->tid, event->ns,
				  ns);
	if (err)
		return err;
	if (role->kind == ROLE_BEGIN)
		return span_begin(reading, spans, role->span, event->ticks, ns);
	span_end(reading, spans, role->span, event, ns);
	return 0;
}

/* ---- the kernel's events ---- */

static struct thread_event thread_event_of(const struct switches_reading *reading,
					   const struct role *role, const struct merge_event *event)
{
	const uint8_t *at = event->fields + THREAD_BYTES;
	struct thread_event made = { .kind = (enum thread_event_kind)role->event,
				     .ns = event->ns,
				     .pid = event->pid,
				     .tid = event->tid,
				     .cpu = event->stream->cpu };

	switch (made.kind) {
	case THREAD_DEPARTS:
		made.is_preempted = at[0] != 0;
		made.letter = (char)at[1];
		made.place = load_u64(at + 2);
		if (made.place)
			made.image = process_number_at(&reading->numbers, event->pid, event->ns,
						       NULL);
		break;
	case THREAD_WOKEN:
		made.waker_pid = load_u32(at);
		made.waker_tid = load_u32(at + 4);
		break;
	case THREAD_RUN_DELAY:
		made.delay_ns = load_u64(at);
		break;
	case THREAD_ARRIVES:
	case THREAD_IS_BORN:
	case THREAD_IS_NAMED:
	case THREAD_EXITS:
	case THREAD_IS_HERE:
		break;
	}
	return made;
}

/*
 * Keep what was lost before an event. The losses are later than the stream's event before: a CPU
 * may have other streams. Returns 0 or -ENOMEM.
 */
static int loss_keep(struct switches_reading *reading, const struct role *role,
		     const struct merge_event *event)
{
	struct cpu_stream *cpu = &reading->cpus[event->stream - reading->reader->streams];
	uint64_t from_ns = cpu->last_ns ? cpu->last_ns : reading->switches->states.begin_ns;
	uint64_t lost = role && role->kind == ROLE_LOST ? load_u64(event->fields + THREAD_BYTES)
							: 0;
	uint64_t known;

	cpu->last_ns = event->ns;
	cpu->lost += lost;
	known = event->lost < cpu->lost ? event->lost : cpu->lost;
	cpu->lost -= known;
	/* packets have an unknown number of events, but one at least */
	lost += event->lost - known + event->missing_packets;
	if (!lost)
		return 0;
	if (array_grow(&reading->losses, &reading->loss_room, reading->loss_count + 1,
		       sizeof(struct loss)))
		return -ENOMEM;
	reading->losses[reading->loss_count++] = (struct loss){
		.from_ns = from_ns,
		.to_ns = event->ns,
		.events = lost,
		.cpu = event->stream->cpu,
		.is_wakes = strstr(event->stream->comm, PACKET_WAKES) != NULL
	};
	return 0;
}

/* The losses that begin before `ns`. Returns 0 or -ENOMEM. */
static int losses_tell(struct switches_reading *reading, uint64_t ns)
{
	struct thread_states *states = &reading->switches->states;
	int err = 0;

	while (!err && reading->losses_told < reading->loss_count &&
	       reading->losses[reading->losses_told].from_ns < ns) {
		const struct loss *loss = &reading->losses[reading->losses_told++];

		if (loss->is_wakes)
			thread_states_lost_wakes(states, loss->from_ns, loss->to_ns, loss->events);
		else
			err = thread_states_lost(states, loss->cpu, loss->from_ns, loss->to_ns,
						 loss->events);
	}
	return err;
}

static int kernel_add(struct switches_reading *reading, const struct role *role,
		      const struct merge_event *event)
{
	struct switches *switches = reading->switches;
	struct thread_event made;
	int err = 0;

	if (!role || role->kind != ROLE_KERNEL)
		return 0;
	made = thread_event_of(reading, role, event);
	if (made.kind == THREAD_DEPARTS && switches->stack_of)
		err = switches->stack_of(event, made.place, &made.stack, switches->stack_data);
	return err ? err : thread_states_add(&switches->states, &made);
}

/* ---- the trace ---- */

static int is_wanted_cpu(const struct trace_stream *stream, void *data)
{
	const struct switches_reading *reading = data;

	return stream->is_of_cpu && reading->roles[stream->process] != NULL;
}

static int switches_want(const struct pass_observer *observer, uint32_t process,
			 const struct trace_class *class)
{
	const struct role *roles = ((const struct switches *)observer)->reading->roles[process];

	return roles && roles[class->index].kind;
}

static const struct role *role_of(const struct switches_reading *reading,
				  const struct merge_event *event)
{
	return event->class ? &reading->roles[event->stream->process][event->class->index] : NULL;
}

/*
 * A CPU's stream says what it lost when it has room again. What other streams have meanwhile must
 * be read as beside a loss, so losses are found first.
 */
static int losses_read(struct switches_reading *reading)
{
	struct merge_event event;
	struct merge *merge;
	int err = merge_open(&merge, reading->reader, 0, is_wanted_cpu, reading);

	if (err)
		return err;
	while (!err && (err = merge_next(merge, &event)) > 0)
		err = loss_keep(reading, role_of(reading, &event), &event);
	merge_close(merge);
	sorted_make(reading->losses, reading->loss_count, sizeof(struct loss));
	return err;
}

static int switches_take(struct pass_observer *observer, const struct merge_event *event)
{
	struct switches_reading *reading = ((struct switches *)observer)->reading;
	const struct role *role = role_of(reading, event);
	int err = losses_tell(reading, event->ns);

	if (err)
		return err;
	return event->stream->is_of_cpu ? kernel_add(reading, role, event)
					: span_add(reading, role, event);
}

/* When the first packet of a CPU began, and when the last packet of all ended. */
static void times_find(const struct trace_reader *reader, uint64_t *begin_ns, uint64_t *end_ns)
{
	*begin_ns = UINT64_MAX;
	*end_ns = 0;
	for (uint32_t i = 0; i < reader->stream_count; i++) {
		const struct trace_stream *stream = &reader->streams[i];
		uint64_t begin, end;

		if (!stream->packets)
			continue; /* nor has it a process */
		begin = reader_ns(reader, stream_clock(reader, stream), stream->begin_ticks);
		end = reader_ns(reader, stream_clock(reader, stream), stream->end_ticks);
		if (stream->is_of_cpu && begin < *begin_ns)
			*begin_ns = begin;
		*end_ns = end > *end_ns ? end : *end_ns;
	}
}

static void reading_free(struct switches_reading *reading)
{
	for (uint32_t i = 0; reading->roles && i < reading->reader->meta.process_count; i++)
		free(reading->roles[i]);
	for (uint32_t i = 0; reading->streams && i < reading->reader->stream_count; i++)
		free(reading->streams[i].all);
	free(reading->roles);
	free(reading->streams);
	free(reading->cpus);
	free(reading->losses);
	process_numbers_release(&reading->numbers);
	free(reading);
}

int switches_open(struct switches *switches, struct trace_reader *reader,
		  const struct summary *summary)
{
	struct switches_reading *reading = calloc(1, sizeof(*reading));
	uint64_t begin_ns;
	int err;

	*switches = (struct switches){ .observer = { switches_want, switches_take },
				       .reading = reading };
	if (!reading)
		return -ENOMEM;
	reading->switches = switches;
	reading->reader = reader;
	times_find(reader, &begin_ns, &reading->end_ns);
	thread_states_init(&switches->states, begin_ns);
	switches->spans = calloc((size_t)summary->span_count + 1, sizeof(*switches->spans));
	reading->streams = calloc((size_t)reader->stream_count + 1, sizeof(*reading->streams));
	reading->cpus = calloc((size_t)reader->stream_count + 1, sizeof(*reading->cpus));
	err = switches->spans && reading->streams && reading->cpus
		      ? process_numbers_make(&reading->numbers, reader)
		      : -ENOMEM;
	if (!err)
		err = roles_make(reading, summary);
	return err ? err : losses_read(reading);
}

int switches_finish(struct switches *switches)
{
	int err = losses_tell(switches->reading, UINT64_MAX);

	return err ? err : thread_states_finish(&switches->states, switches->reading->end_ns);
}

void switches_release(struct switches *switches)
{
	thread_states_release(&switches->states);
	free(switches->spans);
	if (switches->reading)
		reading_free(switches->reading);
	*switches = (struct switches){ 0 };
}
