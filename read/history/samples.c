/* SPDX-License-Identifier: MIT */
#include "read/history/samples.h"

#include "abi/trail.h"
#include "base/array.h"
#include "base/name_match.h"
#include "read/history/samples_own.h"
#include "read/history/samples_trail.h"
#include "read/pass/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Where the fields of a class are that a sample is made of. */
struct layout {
	int ip, period, callchain; /* numbers of fields; -1: none */
};

static int field_of(const struct trace_class *class, const char *name, uint8_t type)
{
	for (unsigned int i = 0; i < class->count; i++)
		if (class->types[i] == type && !strcmp(class->fields[i], name))
			return (int)i;
	return -1;
}

static struct layout layout_of(const struct trace_class *class)
{
	return (struct layout){ .ip = field_of(class, "ip", WM_TYPE_PTR),
				.period = field_of(class, "period", WM_TYPE_U64),
				.callchain = field_of(class, "callchain", WM_TYPE_ADDRESSES) };
}

static int is_sample(const struct trace_class *class)
{
	return class->has_thread && field_of(class, "ip", WM_TYPE_PTR) >= 0;
}

static int matches(const char *glob, const char *name)
{
	return !glob || name_match(glob, name) ||
	       (!strncmp(name, "sample:", 7) && name_match(glob, name + 7));
}

int samples_are_in(const struct trace_reader *reader)
{
	return samples_events(reader, NULL, NULL, 0) != 0;
}

/* Whether names[] has it already; count may be more than the `most` that it holds. */
static int is_among(const char *name, const char **names, size_t count, size_t most)
{
	for (size_t i = 0; i < count && i < most; i++)
		if (!strcmp(names[i], name))
			return 1;
	return 0;
}

size_t samples_events(const struct trace_reader *reader, const char *glob, const char **names,
		      size_t most)
{
	size_t count = 0;

	for (uint32_t i = 0; i < reader->meta.process_count; i++) {
		const struct tsdl_process *process = &reader->meta.processes[i];
		uint32_t classes = process->is_kernel && process->schema ? process->schema->count
									 : 0;

		for (uint32_t j = 0; j < classes; j++) {
			const struct trace_class *class = process->schema->classes[j];

			if (!is_sample(class) || !matches(glob, class->name) ||
			    is_among(class->name, names, count, most))
				continue;
			if (count < most)
				names[count] = class->name;
			count++;
		}
	}
	return count;
}

int samples_open(struct samples *samples, struct trace_reader *reader,
		 const struct samples_options *options)
{
	uint32_t count = reader->meta.process_count;
	int err;

	*samples = (struct samples){ .reader = reader, .options = *options, .kernel = count };
	for (uint32_t i = 0; i < count; i++)
		if (reader->meta.processes[i].is_kernel)
			samples->kernel = i;
	samples->processes = calloc((size_t)count + 1, sizeof(*samples->processes));
	samples->tids = calloc(SAMPLES_TID_SLOTS, sizeof(*samples->tids));
	err = image_files_open(&samples->files, options->image.root ? options->image.root : "");
	if (!err)
		err = stacks_init(&samples->stacks);
	if (!err)
		err = thread_names_read(&samples->names, reader);
	if (!err)
		err = process_numbers_make(&samples->numbers, reader);
	return samples->processes && samples->tids ? err : -ENOMEM;
}

void samples_close(struct samples *samples)
{
	for (uint32_t i = 0; samples->processes && i <= samples->reader->meta.process_count; i++) {
		functions_close(&samples->processes[i].functions);
		image_close(samples->processes[i].image);
	}
	image_files_close(samples->files);
	stacks_release(&samples->stacks);
	free(samples->processes);
	free(samples->events);
	free(samples->threads);
	free(samples->sums);
	free(samples->frames);
	free(samples->slots.all);
	free(samples->tids);
	thread_names_release(&samples->names);
	process_numbers_release(&samples->numbers);
	*samples = (struct samples){ 0 };
}

/* ---- events ---- */

/* Its number, that of a new one for a new class. 0 or -ENOMEM. */
static int event_find(struct samples *samples, const struct trace_class *class, uint32_t *number)
{
	static const char clocks[][20] = { "sample:cpu-clock", "sample:task-clock" };
	struct samples_event *event;
	struct layout layout;

	for (*number = 0; *number < samples->event_count; ++*number)
		if (!strcmp(samples->events[*number].name, class->name))
			return 0;
	if (array_grow(&samples->events, &samples->event_room, samples->event_count + 1,
		       sizeof(*samples->events)))
		return -ENOMEM;
	layout = layout_of(class);
	event = &samples->events[samples->event_count++];
	*event = (struct samples_event){ .name = class->name,
					 .has_period = layout.period >= 0,
					 .has_stacks = layout.callchain >= 0 };
	for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
		size_t bytes = strlen(clocks[i]);

		event->is_time |= event->has_period && !strncmp(class->name, clocks[i], bytes) &&
				  (!class->name[bytes] || class->name[bytes] == ':');
	}
	return 0;
}

static int is_wanted(const struct samples *samples, const struct merge_event *event)
{
	const struct samples_options *options = &samples->options;

	if (!event->class || !is_sample(event->class))
		return 0;
	if ((options->pid && event->pid != options->pid) ||
	    (options->tid && event->tid != options->tid))
		return 0;
	return matches(options->event, event->class->name);
}

/* ---- one sample ---- */

static uint64_t address_at(const struct wm_event_field *chain, size_t index)
{
	uint64_t address;

	memcpy(&address, (const uint8_t *)chain->value.run.start + 8 * index, sizeof(address));
	return address;
}

/*
 * The address by which a frame's function is found. A caller's is where its call returns to, so
 * the byte before is the call's; but the first frame of user space, behind the kernel's, was
 * interrupted.
 */
static uint64_t place_of(const struct wm_event_field *chain, size_t index)
{
	uint64_t address = address_at(chain, index);
	int is_entry = address < TRAIL_KERNEL && address_at(chain, index - 1) >= TRAIL_KERNEL;

	return address - (address && !is_entry);
}

/*
 * How many frames a stack has: what comes behind the program's frames and is of the kernel was no
 * frame.
 */
static size_t frames_of(const struct wm_event_field *chain)
{
	size_t count = chain ? chain->value.run.bytes / 8 : 0, at = 1;

	count = count < SAMPLES_DEPTH_MAX ? count : SAMPLES_DEPTH_MAX;
	while (at < count &&
	       (address_at(chain, at) < TRAIL_KERNEL || address_at(chain, at - 1) >= TRAIL_KERNEL))
		at++;
	return at < count ? at : count;
}

/* What an event says of a sample. */
struct taken {
	const struct merge_event *from;
	const struct wm_event_field *chain; /* NULL: it has none */
	uint64_t ip, weight;
	uint32_t thread;
};

/*
 * The stack of a thread's functions, from the outermost to the sample's; `stack` is what they
 * are on. 0 or -ENOMEM.
 */
static int stack_find(struct samples *samples, uint32_t process, uint32_t stack,
		      const struct taken *taken, struct samples_sum *like)
{
	const struct wm_event_field *chain = taken->chain;
	const struct function *function;
	uint32_t whose = 0;
	int err = 0;

	for (size_t i = frames_of(chain); i-- > 1 && !err;) {
		function = samples_function(samples, process, place_of(chain, i), taken->from->ns,
					    &whose);
		err = function ? stacks_of(&samples->stacks, stack, function, whose, NULL, &stack)
			       : -ENOMEM;
	}
	if (err)
		return err;
	function = samples_function(samples, process, taken->ip, taken->from->ns, &whose);
	like->process = whose;
	return function ? stacks_of(&samples->stacks, stack, function, whose, NULL, &like->stack)
			: -ENOMEM;
}

struct reading {
	struct samples *samples;
	struct wm_event_field fields[SCHEMA_FIELDS_MAX];
	struct samples_trail *trail; /* NULL: no callers are in it */
	size_t without;		     /* samples that were recorded without callers, so far */
	int (*take)(const struct samples_one *one, void *data);
	void *data;
};

/* Have the trail look for the callers of a sample that was recorded without. */
static int take_without(struct reading *reading, const struct taken *taken)
{
	return taken->chain ? 0
			    : samples_trail_add(reading->trail, taken->thread, taken->ip,
						taken->from->ns);
}

static int take_sample(struct reading *reading, const struct taken *taken)
{
	struct samples *samples = reading->samples;
	struct samples_thread *thread = &samples->threads[taken->thread];
	struct samples_sum like = { .thread = taken->thread, .address = taken->ip };
	const struct samples_callers *callers = NULL;
	struct samples_event *event;
	uint32_t sum;
	int err = event_find(samples, taken->from->class, &like.event);

	if (err)
		return err;
	if (reading->trail && !taken->chain)
		callers = &reading->trail->callers[reading->without++];
	if (callers && callers->stack == STACKS_ROOT)
		callers = NULL;
	err = stack_find(samples, thread->process, callers ? callers->stack : thread->stack, taken,
			 &like);
	if (!err)
		err = samples_sum_find(samples, &like, &sum);
	if (err)
		return err;
	event = &samples->events[like.event];
	event->count++;
	event->weight += taken->weight;
	event->has_stacks |= callers != NULL;
	event->cut += callers ? (uint64_t)callers->is_cut
			      : taken->chain && taken->chain->state == FIELD_CUT;
	samples->threads[like.thread].count++;
	samples->sums[sum].count++;
	samples->sums[sum].weight += taken->weight;
	return reading->take
		       ? reading->take(&(struct samples_one){ sum, taken->weight, taken->from->ns },
				       reading->data)
		       : 0;
}

static int take_event(struct reading *reading, const struct merge_event *from,
		      int (*take)(struct reading *reading, const struct taken *taken))
{
	struct layout layout = layout_of(from->class);
	struct taken taken = { .from = from, .weight = 1 };
	int err = samples_thread_find(reading->samples, from->pid, from->tid, from->ns,
				      &taken.thread);

	if (err)
		return err;
	trace_fields(reading->fields, from->class, from->fields);
	taken.ip = reading->fields[layout.ip].value.u;
	if (layout.period >= 0)
		taken.weight = reading->fields[layout.period].value.u;
	if (layout.callchain >= 0)
		taken.chain = &reading->fields[layout.callchain];
	return take(reading, &taken);
}

static int is_of_cpu(const struct trace_stream *stream, void *data)
{
	(void)data;
	return stream->is_of_cpu;
}

static int take_all(struct reading *reading,
		    int (*take)(struct reading *reading, const struct taken *taken))
{
	struct merge_event event;
	struct merge *merge;
	int err = merge_open(&merge, reading->samples->reader, 0, is_of_cpu, NULL);

	if (err)
		return err;
	while ((err = merge_next(merge, &event)) > 0) {
		err = is_wanted(reading->samples, &event) ? take_event(reading, &event, take) : 0;
		if (err)
			break;
	}
	merge_close(merge);
	return err;
}

/* Whether samples that are wanted were recorded without callers. */
static int is_any_without(const struct samples *samples)
{
	const struct tsdl *meta = &samples->reader->meta;
	const struct trace_schema *schema = samples->kernel < meta->process_count
						    ? meta->processes[samples->kernel].schema
						    : NULL;

	for (uint32_t i = 0; schema && i < schema->count; i++)
		if (is_sample(schema->classes[i]) &&
		    matches(samples->options.event, schema->classes[i]->name) &&
		    layout_of(schema->classes[i]).callchain < 0)
			return 1;
	return 0;
}

int samples_read(struct samples *samples, int (*take)(const struct samples_one *one, void *data),
		 void *data)
{
	struct reading reading = { .samples = samples, .take = take, .data = data };
	struct samples_trail trail = { 0 };
	int err = 0;

	if (samples->options.wants_trails && is_any_without(samples)) {
		reading.trail = &trail;
		err = samples_trail_open(&trail, samples);
		if (!err && trail.trails.path_count)
			err = take_all(&reading, take_without);
		if (!err)
			err = samples_trail_walk(&trail);
		if (!trail.trails.path_count)
			reading.trail = NULL;
	}
	if (!err)
		err = take_all(&reading, take_sample);
	samples_trail_release(&trail);
	return err;
}
